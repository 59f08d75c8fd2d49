//! Prints all pages of a list of routes as one JSON document. Each page is written before the next
//! one is requested, so memory holds the text of the document and a few pages, but not all routes
//! as JSON values.

use std::cell::{Cell, RefCell};

use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;
use slipring_cli::{Diagnostic, Exit, Failure, Session};
use slipring_control::{ControlClient, ControlError};

use crate::names::ANSWER_VERSION;

/// Requests all pages, and prints them.
///
/// # Errors
/// If the router refuses a request or does not answer, or the output cannot be written.
pub(crate) fn print(
    client: &mut ControlClient,
    mut args: Value,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let first = client.request("route.show", args.clone()).map_err(failure)?;
    let fault = Cell::new(None);
    let next_page = |after: Value| {
        args["after"] = after;
        client.request("route.show", args.clone())
    };
    let routes = AllPages { first, next_page: RefCell::new(next_page), fault: &fault };
    let document = RouteDocument { answer: RouteListAnswer { v: ANSWER_VERSION, routes } };
    let printed = session.reporter.document(&document, "");
    // If the document could not be printed because a request failed, the failure of the request is
    // reported.
    fault.take().map_or(printed, |error| Err(failure(error)))?;
    Ok(Exit::Done)
}

fn failure(error: ControlError) -> Failure {
    Diagnostic::of(&error).into()
}

#[derive(Serialize)]
struct RouteDocument<R> {
    answer: RouteListAnswer<R>,
}

#[derive(Serialize)]
struct RouteListAnswer<R> {
    v: u32,
    routes: R,
}

/// The routes of all pages.
struct AllPages<'f, F> {
    first: Value,
    /// Requests the page after a place in the list.
    next_page: RefCell<F>,
    fault: &'f Cell<Option<ControlError>>,
}

impl<F: FnMut(Value) -> Result<Value, ControlError>> Serialize for AllPages<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut routes = serializer.serialize_seq(None)?;
        let mut page = self.first.clone();
        loop {
            for route in page["routes"].as_array().into_iter().flatten() {
                routes.serialize_element(route)?;
            }
            let next = page["next"].take();
            if next.is_null() {
                return routes.end();
            }
            page = (self.next_page.borrow_mut())(next).map_err(|error| {
                self.fault.set(Some(error));
                S::Error::custom("a page is missing")
            })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pages(last_is_missing: bool) -> (serde_json::Result<Value>, Option<ControlError>) {
        let fault = Cell::new(None);
        let next_page = |after: Value| match after.as_u64() {
            Some(1) => Ok(json!({ "routes": ["b", "c"], "next": 2 })),
            _ if last_is_missing => Err(ControlError::NoAnswer("it has ended".to_owned())),
            _ => Ok(json!({ "routes": ["d"], "next": null })),
        };
        let first = json!({ "routes": ["a"], "next": 1 });
        let all = AllPages { first, next_page: RefCell::new(next_page), fault: &fault };
        let text = serde_json::to_string(&all);
        (text.and_then(|text| serde_json::from_str(&text)), fault.take())
    }

    #[test]
    fn all_pages_are_one_document() {
        let (routes, fault) = pages(false);
        assert_eq!(routes.unwrap(), json!(["a", "b", "c", "d"]));
        assert!(fault.is_none());
    }

    #[test]
    fn a_page_that_does_not_come_is_an_error() {
        let (routes, fault) = pages(true);
        assert!(routes.is_err());
        assert!(matches!(fault, Some(ControlError::NoAnswer(_))), "{fault:?}");
    }
}
