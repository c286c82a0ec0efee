//! The fields that a limiter, an override, a prefix and the default have in common.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::calendar::TimeZone;
use crate::conflict::Conflict;
use crate::limit::Limit;
use crate::limits_file::fields::Field;
use crate::limits_file::node;
use crate::limits_file::problem::{Position, Report};
use crate::limits_file::program::MAX_KEYS;
use crate::limits_file::read::Value;
use crate::limits_file::shape::Shape;
use crate::limits_file::shards::MAX_SHARDS;
use crate::penalty::Penalty;
use crate::per::Per;
use crate::settings::{Merged, Settings};
use crate::words::{MAX_RATE, Mode, OnDrift, OnStoreError, RefundOn, Wait};

/// Collects settings, and the fields that set them.
#[derive(Default)]
pub(in crate::limits_file) struct SettingsReader<'a> {
    settings: Settings,
    fields: Vec<Field<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Own,
    Inherited,
}

macro_rules! reader {
    ($($(#[doc = $doc:literal])* $name:ident: $ty:ty $(= $default:expr)? =>
        $(number($least:literal $note:literal, $most:expr))? $(argument $argument:tt)?;)+) => {
        impl<'a> SettingsReader<'a> {
            /// Reads a field. Returns `false` if it is not one of [`Settings::NAMES`].
            pub(in crate::limits_file) fn field(&mut self, field: &Field<'a>, report: &mut Report) -> bool {
                match field.name {
                    $(stringify!($name) => {
                        let range = None$(.or(Some(Shape::Number($least, $note, $most as u64))))?;
                        let shape = range.or(<$ty>::SHAPE);
                        self.settings.$name = shape.and_then(|shape| Value::read(field, shape, report));
                    })+
                    _ => return false,
                }
                self.fields.push(*field);
                true
            }
        }

        /// The settings: name, description and shape.
        pub(in crate::limits_file) fn settings() -> impl Iterator<Item = (&'static str, &'static str, Shape)> {
            let all = [$((
                stringify!($name),
                concat!($($doc),*).trim_start(),
                None$(.or(Some(Shape::Number($least, $note, $most as u64))))?.or(<$ty>::SHAPE),
            )),+];
            all.into_iter().filter_map(|(name, about, shape)| Some((name, about, shape?)))
        }
    };
}

crate::settings!(reader);

impl SettingsReader<'_> {
    /// Checks the defaults. The zone is left out: it applies only to limiters with a calendar window.
    pub(super) fn finish_default(mut self, report: &mut Report) -> Settings {
        let time_zone = self.settings.time_zone.take();
        Settings { time_zone, ..self.finish(&Settings::default(), report) }
    }

    /// Checks the settings together with the inherited ones. The annotation is unknown here.
    pub(in crate::limits_file) fn finish(
        self,
        inherited: &Settings,
        report: &mut Report,
    ) -> Settings {
        let set = Merged::of(&[(Layer::Own, &self.settings), (Layer::Inherited, inherited)]);
        for conflict in set.check() {
            // A conflict without a setting of this layer is reported in the layer that sets it.
            if let Some(position) = self.place_of(&conflict) {
                report.add(position, || conflict.to_string());
            }
        }
        self.settings
    }

    /// Rejects a setting that has no effect here.
    pub(super) fn without(&mut self, name: &str, why: &str, report: &mut Report) {
        if let Some(at) = self.fields.iter().position(|field| field.name == name) {
            // Nothing else is reported about it.
            report.add(self.fields.remove(at).position, || format!("`{name}` {why}"));
        }
    }

    fn place_of(&self, conflict: &Conflict) -> Option<Option<Position>> {
        let field = |name: &&str| self.fields.iter().find(|field| field.name == *name);
        let field = conflict.settings.iter().find_map(field)?;
        let limit = conflict.limit.filter(|_| field.name == "limits");
        let node = match (&field.value.value, limit) {
            (node::Value::List(nodes), Some(limit)) => nodes.get(limit),
            _ => None,
        };
        Some(node.and_then(|node| node.position).or(field.position))
    }
}
