//! Every report matches `docs/schema/report-1.json`.

use serde_json::Value;
use slipring_test_support::schema::{fault, schema};

use crate::stage::run;

#[test]
fn reports_and_errors_match_the_schema() {
    let schema = schema();
    for line in [
        "slipring gen -i null: --json",
        "slipring gen -i null: --json=lines",
        "slipring gen -i null: --json --end gone",
        "slipring gen --json --bogus",
        "slipring explain --json SR0107",
        "slipring explain --json",
    ] {
        let outcome = run(line);
        let objects = outcome.data.lines().chain(outcome.talk.lines());
        for object in objects.filter(|text| text.starts_with('{')) {
            let value: Value = serde_json::from_str(object).unwrap();
            assert_eq!(fault(&schema, &schema, &value), None, "{line}: {object}");
        }
    }
}

#[test]
fn the_check_itself_finds_faults() {
    let schema = schema();
    let good: Value = serde_json::from_str(&run("slipring gen -i null: --json").data).unwrap();
    assert_eq!(fault(&schema, &schema, &good), None);
    let spoilt: [(&str, Value); 5] = [
        ("/schema", 2.into()),
        ("/event", "middle".into()),
        ("/time_ns", "now".into()),
        ("/ports/0/rx/packets", (-1).into()),
        ("/ports/0/drops/tx_ring_full", 1.5.into()),
    ];
    for (pointer, wrong) in spoilt {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(fault(&schema, &schema, &bad).is_some(), "{pointer}");
    }
    for pointer in ["", "/ports/0", "/ports/0/rx"] {
        let mut bad = good.clone();
        bad.pointer_mut(pointer).unwrap()["no_such_key"] = 1.into();
        let told = fault(&schema, &schema, &bad).unwrap_or_default();
        assert!(told.starts_with("no_such_key is not in the schema"), "{pointer}: {told}");
    }
    for key in ["schema", "event", "command", "elapsed_ns"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(key);
        assert!(fault(&schema, &schema, &bad).is_some(), "{key}");
    }
}
