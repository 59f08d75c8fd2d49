//! The part of JSON Schema that `docs/schema/report-1.json` uses.
//!
//! Not a validator of any schema: it panics at a type that it does not know.

use serde_json::Value;

/// Reads the schema of reports.
#[must_use]
pub fn schema() -> Value {
    let path = crate::tree::root().join("docs/schema/report-1.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the first fault of `value` by `schema`, a part of the document `root`.
#[must_use]
pub fn fault(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return fault(root, target, value);
    }
    let wrong = |why: &str| Some(format!("{why}: {value}"));
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        return wrong("not the constant");
    }
    let words = schema.get("enum").and_then(Value::as_array);
    if words.is_some_and(|words| !words.contains(value)) {
        return wrong("not one of the words");
    }
    let is_one = |kind: &Value| kind.as_str().is_none_or(|kind| is_of(kind, value));
    let fits = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_one),
        Some(kind) => is_one(kind),
        None => true,
    };
    if !fits {
        return wrong("of the wrong type");
    }
    let minimum = schema.get("minimum").and_then(Value::as_i64);
    if minimum.is_some_and(|minimum| value.as_i64().is_some_and(|number| number < minimum)) {
        return wrong("too small");
    }
    branch_fault(root, schema, value).or_else(|| object_fault(root, schema, value)).or_else(|| {
        let items = schema.get("items")?;
        value.as_array()?.iter().find_map(|item| fault(root, items, item))
    })
}

fn branch_fault(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let rules = schema.get("allOf").and_then(Value::as_array);
    rules.into_iter().flatten().find_map(|rule| {
        let applies = fault(root, &rule["if"], value).is_none();
        let branch = if applies { "then" } else { "else" };
        fault(root, rule.get(branch)?, value)
    })
}

fn object_fault(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let object = value.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let missing =
        required.into_iter().flatten().find(|key| !object.contains_key(key.as_str().unwrap()));
    if let Some(key) = missing {
        return Some(format!("without {key}: {value}"));
    }
    object.iter().find_map(|(key, member)| {
        let named = schema.get("properties").and_then(|all| all.get(key));
        match named.or(schema.get("additionalProperties"))? {
            Value::Bool(true) => None,
            Value::Bool(false) => Some(format!("{key} is not in the schema: {value}")),
            schema => fault(root, schema, member),
        }
    })
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the check does not know the type {other}"),
    }
}
