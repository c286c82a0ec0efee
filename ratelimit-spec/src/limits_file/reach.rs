//! Entries that never decide, because an earlier one matches all their names.

use super::Match;

/// Returns the entries that are never reached, each with an earlier one that always matches instead.
///
/// In alphabetical order a prefix comes directly before all texts that start with it, so one pass with
/// a stack of the prefixes of the current text finds them.
pub(super) fn unreachable(matches: &[&Match]) -> Vec<(usize, usize)> {
    let text = |index: usize| match matches[index] {
        Match::Key(text) | Match::Prefix(text) => text.as_str(),
    };
    let is_key = |index: usize| matches!(matches[index], Match::Key(_));
    let mut order: Vec<usize> = (0..matches.len()).collect();
    order.sort_by_key(|&index| (text(index), is_key(index), index));

    let mut found = Vec::new();
    // Each prefix with the earliest entry among itself and the prefixes below it.
    let mut around: Vec<(usize, usize)> = Vec::new();
    let mut last_key: Option<usize> = None;
    for index in order {
        while around.last().is_some_and(|&(prefix, _)| !text(index).starts_with(text(prefix))) {
            around.pop();
        }
        let same_key = last_key.filter(|&key| is_key(index) && text(key) == text(index));
        let earliest = around.last().map(|&(_, earliest)| earliest).filter(|&at| at < index);
        if let Some(earlier) = earliest.or(same_key) {
            found.push((index, earlier));
        }
        if is_key(index) {
            last_key = same_key.or(Some(index));
        } else {
            let earliest = around.last().map_or(index, |&(_, earliest)| earliest.min(index));
            around.push((index, earliest));
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::unreachable;
    use crate::limits_file::Match;

    #[test]
    fn an_entry_is_unreachable_after_one_that_matches_more() {
        let prefix = |text: &str| Match::Prefix(text.to_owned());
        let key = |text: &str| Match::Key(text.to_owned());
        for (entries, expected) in [
            (vec![], vec![]),
            (vec![prefix("a"), prefix("b")], vec![]),
            (vec![prefix("a"), prefix("a")], vec![(1, 0)]),
            (vec![prefix("a"), prefix("ab")], vec![(1, 0)]),
            (vec![prefix("ab"), prefix("a")], vec![]),
            (vec![prefix("ab"), prefix("a"), prefix("ac")], vec![(2, 1)]),
            (vec![prefix("abc"), prefix("a"), prefix("ab")], vec![(2, 1)]),
            (vec![prefix("a"), key("a")], vec![(1, 0)]),
            (vec![prefix("a"), key("ab")], vec![(1, 0)]),
            (vec![key("ab"), prefix("a")], vec![]),
            (vec![key("a"), prefix("a")], vec![]),
            (vec![key("a"), prefix("ab")], vec![]),
            (vec![key("a"), key("b"), key("a"), key("a")], vec![(2, 0), (3, 0)]),
            (vec![prefix(""), key("a"), prefix("b")], vec![(1, 0), (2, 0)]),
        ] {
            assert_eq!(unreachable(&entries.iter().collect::<Vec<_>>()), expected, "{entries:?}");
        }
    }
}
