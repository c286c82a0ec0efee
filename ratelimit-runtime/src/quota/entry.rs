//! A quota as an entry of the limits file, for serde.

use ratelimit_spec::{Algorithm, Merged, Per, check_number, format_duration, limits_file};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{Quota, QuotaError, Quotas};

/// The fields of the entry.
#[derive(Serialize)]
struct Entry {
    rate: u64,
    per: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_up: Option<String>,
}

impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (rule, calendar) = (self.rule(), self.rule().calendar());
        let per = Per { length: self.per(), unit: calendar.map(|calendar| calendar.unit) };
        let algorithm = Some(rule.algorithm()).filter(|rule| *rule != Algorithm::default());
        let entry = Entry {
            rate: self.rate(),
            per: per.to_string(),
            time_zone: calendar.map(|calendar| calendar.zone.name()),
            algorithm: algorithm.map(Algorithm::as_str),
            burst: self.burst(),
            warm_up: self.warm_up().map(format_duration),
        };
        entry.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAMES: [&str; 6] = ["rate", "per", "time_zone", "algorithm", "burst", "warm_up"];
        let said = limits_file::settings_block(deserializer, "a quota", &NAMES)?;
        let set = Merged::of(&[((), &said)]).or_built_in(());
        let (Some(rate), Some(per), Some(rule)) = (set.rate, set.per, set.rule()) else {
            return Err(Error::custom("missing `rate` or `per` in a quota"));
        };
        // A limits file disables a limiter with a rate of 0, which is not a quota.
        check_number("rate", rate.value.into())
            .map_err(|error| Error::custom(QuotaError(error)))?;
        Ok(Self::of(ratelimit_spec::Quota { rate: rate.value.into(), per: per.value.length, rule }))
    }
}

impl Serialize for Quotas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Quotas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::<Quota>::deserialize(deserializer)?).map_err(Error::custom)
    }
}
