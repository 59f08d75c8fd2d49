//! Tests that every report matches the schemas in `docs/schema`.

use serde_json::Value;
use slipring_test_support::oracle::schema_faults;

use crate::stage::run;

/// Command lines, and the schema of their output.
const CASES: [(&str, &str); 6] = [
    ("slipring gen -i null: --json", "bridge-1.json"),
    ("slipring gen -i null: --json=lines", "bridge-1.json"),
    ("slipring gen -i null: --json --end gone", "bridge-1.json"),
    ("slipring gen --json --bogus", "bridge-1.json"),
    ("slipring explain --json SR0107", "explain-1.json"),
    ("slipring explain --json", "explain-1.json"),
];

/// Parses an object, and removes the keys that only the program of these tests reports.
fn parse(object: &str) -> Value {
    let mut value: Value = serde_json::from_str(object).unwrap();
    for key in ["rate_pps", "lost"] {
        value.as_object_mut().unwrap().remove(key);
    }
    value
}

#[test]
fn reports_and_errors_match_the_schema() {
    let mut objects: Vec<(&str, Value)> = Vec::new();
    for (line, schema) in CASES {
        let outcome = run(line);
        let lines = outcome.data.lines().chain(outcome.talk.lines());
        let lines = lines.filter(|text| text.starts_with('{'));
        objects.extend(lines.map(|object| (schema, parse(object))));
    }
    assert!(objects.len() >= CASES.len());
    let Some(faults) = schema_faults(objects.iter().map(|(schema, object)| (*schema, object)))
    else {
        return;
    };
    for (fault, (_, object)) in faults.iter().zip(&objects) {
        assert_eq!(fault, "", "{object}");
    }
}

#[test]
fn faults_of_what_all_commands_have_in_common_are_found() {
    let good = parse(&run("slipring gen -i null: --json").data);
    let mut all = vec![good.clone()];
    let spoilt: [(&str, Value); 5] = [
        ("/schema", 2.into()),
        ("/event", "middle".into()),
        ("/time_ns", "now".into()),
        ("/ports/0/rx/packets", (-1).into()),
        ("/ports/0/drops/tx_ring_full", 1.5.into()),
    ];
    for (pointer, wrong) in spoilt {
        all.push(good.clone());
        *all.last_mut().unwrap().pointer_mut(pointer).unwrap() = wrong;
    }
    for pointer in ["", "/ports/0", "/ports/0/rx"] {
        all.push(good.clone());
        all.last_mut().unwrap().pointer_mut(pointer).unwrap()["no_such_key"] = 1.into();
    }
    for key in ["schema", "event", "command", "elapsed_ns"] {
        all.push(good.clone());
        all.last_mut().unwrap().as_object_mut().unwrap().remove(key);
    }
    let Some(faults) = schema_faults(all.iter().map(|value| ("bridge-1.json", value))) else {
        return;
    };
    assert_eq!(faults[0], "");
    for (fault, value) in faults[1..].iter().zip(&all[1..]) {
        assert_ne!(fault, "", "{value}");
    }
}
