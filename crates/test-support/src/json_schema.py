"""Validates JSON by the schemas in a folder, with Python's jsonschema.

Reads lines {"schema": REFERENCE, "object": VALUE}; writes a line for each: its first fault, or nothing.
"""
import functools
import json
import pathlib
import sys
import warnings

try:
    import jsonschema
except ImportError:
    sys.exit(77)

# Later versions of jsonschema warn that references should be resolved in a new way. Earlier
# versions do not have it, so the warnings are ignored.
warnings.simplefilter("ignore")
folder = pathlib.Path(sys.argv[1]).resolve()


for path in folder.glob("*.json"):
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@functools.cache
def validator(reference):
    resolver = jsonschema.RefResolver(folder.as_uri() + "/", {})
    return jsonschema.Draft202012Validator({"$ref": reference}, resolver=resolver)


for line in sys.stdin:
    case = json.loads(line)
    error = jsonschema.exceptions.best_match(validator(case["schema"]).iter_errors(case["object"]))
    print(f"{error.json_path}: {error.message[:400]}" if error else "")
