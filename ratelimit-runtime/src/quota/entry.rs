//! A quota as an entry of the limits file, for serde.

use ratelimit_spec::{Algorithm, Per, format_duration};
use serde::{Serialize, Serializer};

use super::{Quota, Quotas};

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

impl Serialize for Quotas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
