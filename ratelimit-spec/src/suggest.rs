//! "Did you mean": the known name nearest to an unknown one.

use crate::template::Template;

/// Returns the known name that an unknown one was most likely meant to be, or `None` if none is near.
///
/// Nearness is the number of letters inserted, left out, changed or swapped with their neighbor,
/// ignoring case. A third of the name's letters may be wrong, at least one and at most three, but
/// never all of them. Of equally near names the first is taken.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::nearest;
///
/// assert_eq!(nearest("brust", ["rate", "burst"]), Some("burst"));
/// assert_eq!(nearest("colour", ["rate", "burst"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = letters(name);
    let mut limit = (name.len() / 3).clamp(1, 3);
    let mut nearest = None;
    for candidate in known {
        let letters = letters(candidate);
        let Some(distance) = distance_within(&name, &letters, limit) else {
            continue;
        };
        if distance >= name.len().max(letters.len()) {
            continue;
        }
        nearest = Some(candidate);
        let Some(closer) = distance.checked_sub(1) else {
            break;
        };
        limit = closer;
    }
    nearest
}

/// The names of settings and arguments in other tools.
const SYNONYMS: [(&str, &str); 32] = [
    ("burst_capacity", "burst"),
    ("burst_size", "burst"),
    ("capacity", "burst"),
    ("cost", "permits"),
    ("count", "permits"),
    ("duration", "per"),
    ("fallback_method", "fallback"),
    ("interval", "per"),
    ("limit_for_period", "rate"),
    ("limit_refresh_period", "per"),
    ("max", "rate"),
    ("max_requests", "rate"),
    ("max_wait", "wait"),
    ("name", "key"),
    ("on_error", "on_store_error"),
    ("per_second", "rate"),
    ("period", "per"),
    ("qps", "rate"),
    ("quota", "rate"),
    ("redis", "store"),
    ("redis_url", "store"),
    ("replenish_rate", "rate"),
    ("requests", "rate"),
    ("requests_per_second", "rate"),
    ("requests_per_unit", "rate"),
    ("rps", "rate"),
    ("timeout", "wait"),
    ("timeout_duration", "wait"),
    ("unit", "per"),
    ("url", "store"),
    ("weight", "permits"),
    ("window", "per"),
];

/// Returns the known setting or argument that an unknown name was most likely meant to be: by its name in another
/// tool, by its beginning, or as the [nearest]. `is_number` is whether its value is one.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::nearest_setting;
///
/// let known = ["rate", "per", "limits", "on_store_error"];
/// assert_eq!(nearest_setting("timeWindow", false, &known), None);
/// assert_eq!(nearest_setting("limitForPeriod", true, &known), Some("rate"));
/// assert_eq!(nearest_setting("limit", true, &known), Some("rate"));
/// assert_eq!(nearest_setting("limit", false, &known), Some("limits"));
/// ```
#[must_use]
pub fn nearest_setting<'a>(name: &str, is_number: bool, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let own = plain(name);
    let mut synonyms = SYNONYMS.iter().chain(is_number.then_some(&("limit", "rate")));
    let synonym = synonyms.find(|(synonym, _)| plain(synonym) == own).map(|(_, meant)| *meant);
    let beginning = format!("{name}_");
    let known = || known.iter().copied();
    synonym
        .and_then(|meant| known().find(|known| *known == meant))
        .or_else(|| known().find(|known| known.starts_with(&beginning)))
        .or_else(|| nearest(name, known()))
}

/// Returns the known key whose words outside its placeholders are nearest to those of an unknown key, or `None` if
/// none are near.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::nearest_words;
///
/// let known = ["mail", "orders:{user_id}"];
/// assert_eq!(nearest_words("order:{id}", known), Some("orders:{user_id}"));
/// assert_eq!(nearest_words("payments:{user_id}", known), None);
/// ```
pub fn nearest_words<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let own = words(key)?;
    let known: Vec<_> = known.into_iter().filter_map(|key| Some((words(key)?, key))).collect();
    let near = nearest(&own, known.iter().map(|(words, _)| words.as_str()))?;
    known.iter().find(|(words, _)| words == near).map(|(_, key)| *key)
}

/// Returns the words of a key outside its placeholders: `orders items` of `Orders:{user_id}:items`.
fn words(key: &str) -> Option<String> {
    let template = Template::parse(key).ok()?;
    let literals = template.literals().iter();
    let words = literals.flat_map(|literal| literal.split(|c: char| !c.is_alphanumeric()));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn letters(name: &str) -> Vec<char> {
    name.chars().map(|c| c.to_ascii_lowercase()).collect()
}

/// The edit distance of two names (with swapped neighbors as one edit), if it is within the limit.
///
/// Only the cells within `limit` of the diagonal are computed, and the work ends at the first row
/// that is out of reach: a limits file may declare thousands of names, each hundreds of letters
/// long. Cell `k` of row `i` stands for column `i + k - limit - 1`; the outermost cells of a row
/// are a border that is always out of reach.
fn distance_within(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let out_of_reach = vec![limit + 1; 2 * limit + 3];
    let (mut before_last, mut last) = (out_of_reach.clone(), out_of_reach.clone());
    for (j, cell) in last[limit + 1..=2 * limit + 1].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        let mut row = out_of_reach.clone();
        for k in 1..=2 * limit + 1 {
            let Some(j) = (i + k).checked_sub(limit + 1).filter(|&j| j <= b.len()) else {
                continue;
            };
            if j == 0 {
                row[k] = i;
                continue;
            }
            let changed = usize::from(a[i - 1] != b[j - 1]);
            row[k] = (last[k + 1] + 1).min(row[k - 1] + 1).min(last[k] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[k] = row[k].min(before_last[k] + 1);
            }
        }
        if row.iter().all(|&cell| cell > limit) {
            return None;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    Some(last[b.len() + limit + 1 - a.len()]).filter(|&distance| distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_within_reach_is_suggested() {
        let fields = ["rate", "per", "mode", "wait", "on_store_error", "keep_alive"];
        for (name, suggestion) in [
            ("rat", Some("rate")),
            ("raet", Some("rate")),
            ("rte", Some("rate")),
            ("ratee", Some("rate")),
            ("Rate", Some("rate")),
            ("MODE", Some("mode")),
            ("pre", Some("per")),
            ("keepalive", Some("keep_alive")),
            ("on-store-error", Some("on_store_error")),
            ("on_stor_eror", Some("on_store_error")),
            ("store_error", Some("on_store_error")),
            ("burst", None),
            ("limit", None),
            ("x", None),
            ("", None),
            ("日本", None),
        ] {
            assert_eq!(nearest(name, fields), suggestion, "{name}");
        }
    }

    #[test]
    fn the_nearer_name_wins_and_of_equals_the_first() {
        assert_eq!(nearest("orders", ["orderz1", "order"]), Some("order"));
        assert_eq!(nearest("order", ["order1", "order2"]), Some("order1"));
        assert_eq!(nearest("order1", ["order2", "ORDER1"]), Some("ORDER1"));
    }

    #[test]
    fn one_letter_is_never_all_wrong() {
        assert_eq!(nearest("x", ["s"]), None);
        assert_eq!(nearest("x", ["xs"]), Some("xs"));
    }

    #[test]
    fn long_names_are_compared_quickly() {
        let name = "a".repeat(100_000);
        assert_eq!(nearest(&name, [name.replace("aa", "ab").as_str()]), None);
        let off_by_one = format!("{name}b");
        assert_eq!(nearest(&name, [off_by_one.as_str()]), Some(off_by_one.as_str()));
    }
}
