//! The keys of a volume in a configuration file: its own keys and those of the front ends share one table.

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::plan::frontends::FrontendSpecs;

/// A table of a volume, whose keys of front ends go to the front ends. Serde's `flatten` cannot refuse
/// unknown keys, and loses the lines of errors.
pub(super) struct VolumeTable<'a, D> {
    table: D,
    frontends: &'a mut FrontendSpecs,
}

impl<'a, D> VolumeTable<'a, D> {
    pub(super) const fn new(table: D, frontends: &'a mut FrontendSpecs) -> VolumeTable<'a, D> {
        VolumeTable { table, frontends }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for VolumeTable<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        own: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let VolumeTable { table, frontends } = self;
        table.deserialize_struct(name, own, TableVisitor { visitor, own, frontends })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.table.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct TableVisitor<'a, V> {
    visitor: V,
    own: &'static [&'static str],
    frontends: &'a mut FrontendSpecs,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TableVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(OwnKeys { map, own: self.own, frontends: self.frontends })
    }
}

struct OwnKeys<'a, A> {
    map: A,
    own: &'static [&'static str],
    frontends: &'a mut FrontendSpecs,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OwnKeys<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key_seed(KnownKey { own: self.own })? {
            if self.own.contains(&key.as_str()) {
                let key: StringDeserializer<A::Error> = key.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
            self.frontends.read(&key, &mut self.map)?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

struct KnownKey {
    own: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for KnownKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KnownKey {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        let known = [self.own, &FrontendSpecs::keys()].concat();
        if known.contains(&key) {
            return Ok(key.into());
        }
        let known: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
        Err(E::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))))
    }
}
