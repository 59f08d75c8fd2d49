//! JSON whose objects contain each key only once.
//!
//! Most parsers silently take the last value of a duplicate key. So a request could contain two
//! instructions, of which only one would be executed.
//!
//! JSON that slipring's own programs write needs no such check.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value in which no object has a duplicate key.
#[derive(Debug)]
pub struct UniqueKeys(pub Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeys(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let UniqueKeys(value) = object.next_value()?;
            if values.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_refused_at_any_depth() {
        for line in [
            r#"{"do":"hello","do":"quit"}"#,
            r#"{"do":"set","changes":{"up.delay":"5ms","up.delay":"6ms"}}"#,
            r#"[{"a":1},{"b":{"c":1,"c":1}}]"#,
        ] {
            let error =
                serde_json::from_str::<UniqueKeys>(line).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("is given twice")), "{line}");
        }
    }

    #[test]
    fn all_else_is_read_as_ever() {
        let line =
            r#"{"a":[null,true,-1,18446744073709551615,0.5,1e300,"x\n"],"b":{"a":{}},"c":[]}"#;
        let UniqueKeys(value) = serde_json::from_str(line).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(line).unwrap());
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert!(serde_json::from_str::<UniqueKeys>(&deep).is_err());
    }
}
