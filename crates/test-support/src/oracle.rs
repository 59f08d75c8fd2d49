//! Other implementations of the standards that outputs must follow: Python's jsonschema for JSON,
//! and the parser in Prometheus' client library for OpenMetrics.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The Python interpreter of the distribution, which has the distribution's packages. Another
/// interpreter may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";
/// Exit status of the scripts if their package is missing.
const MISSING_PACKAGE: i32 = 77;

/// Returns the first fault of each object; an empty text means that it has none. Each object comes
/// with its schema, which is a file in `docs/schema` or a part of one. Returns `None` if the
/// validator is not installed.
///
/// # Panics
/// If one of the schemas is invalid.
#[must_use]
pub fn schema_faults<'o>(
    objects: impl IntoIterator<Item = (&'o str, &'o Value)>,
) -> Option<Vec<String>> {
    let folder = crate::tree::root().join("docs/schema");
    let cases = objects.into_iter().map(|(schema, object)| {
        let case = json!({ "schema": schema, "object": object });
        format!("{case}\n")
    });
    let cases: Vec<String> = cases.collect();
    let faults =
        run(include_str!("json_schema.py"), &folder, &cases.concat(), "python3-jsonschema")?;
    let faults: Vec<_> = faults.lines().map(str::to_owned).collect();
    assert_eq!(faults.len(), cases.len());
    Some(faults)
}

/// Asserts that an object matches a schema, if the validator is installed.
///
/// # Panics
/// If the object does not match the schema.
pub fn assert_valid(schema: &str, object: &Value) {
    let faults = schema_faults([(schema, object)]);
    assert!(
        faults.as_ref().is_none_or(|faults| faults[0].is_empty()),
        "{schema}: {faults:?}: {object}"
    );
}

/// Returns the metric families in an OpenMetrics text. Each line has name, type and number of
/// samples. Returns `None` if the parser is not installed.
///
/// # Panics
/// If the text violates the standard.
#[must_use]
pub fn openmetrics_families(text: &str) -> Option<String> {
    run(include_str!("openmetrics.py"), Path::new("-"), text, "python3-prometheus-client")
}

fn run(script: &str, argument: &Path, input: &str, package: &str) -> Option<String> {
    let mut python = Command::new(PYTHON);
    python.arg("-c").arg(script).arg(argument);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match crate::closing::spawn(&mut python) {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            crate::skip!("{PYTHON} is not installed");
            return None;
        }
        Err(error) => panic!("{PYTHON}: {error}"),
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // The result is ignored: if a script fails early, it does not read all its input.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    if done.status.code() == Some(MISSING_PACKAGE) {
        crate::skip!("{package} is not installed");
        return None;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}
