//! Groups of outputs: each gets every frame, at one of its outputs.
//!
//! | typed | outputs |
//! |---|---|
//! | `-p 3` | pipes `INPUT{0` to `INPUT{2` |
//! | `-p x:2` | pipes `x{0` and `x{1` |
//! | `--outputs 'tap:a tap:b'` | these two |

use std::collections::HashMap;

use slipring_abi::name::PortName;
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::{OpenCause, OpenError};

/// Pipes of a group that says no number, as in the classic program.
const PIPES: u16 = 2;
/// Outputs of all groups.
const MAX_OUTPUTS: usize = 4096;

/// Outputs that share the flows of the input among them.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) ports: Vec<PortName>,
}

/// A group as it was typed by `-p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pipes {
    prefix: Option<String>,
    count: u16,
}

impl std::str::FromStr for Pipes {
    type Err = String;

    /// Reads `[prefix:]number` or `prefix:`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (prefix, number) = match text.rsplit_once(':') {
            Some(("", _)) => return Err("there is no prefix before the `:`".to_owned()),
            Some((prefix, number)) => (Some(prefix.to_owned()), number),
            None => (None, text),
        };
        let count = match number {
            "" if prefix.is_some() => PIPES,
            number => number.parse().map_err(|_| "expected [PREFIX:]NUMBER".to_owned())?,
        };
        if count == 0 {
            return Err("a group has at least one pipe".to_owned());
        }
        Ok(Self { prefix, count })
    }
}

/// The groups that were typed, `-p` before `--outputs`; one of two pipes where none was.
pub(super) fn groups(
    input: &PortName,
    pipes: Vec<Pipes>,
    listed: &[String],
) -> Result<Vec<Group>, Failure> {
    let pipes = match (pipes.is_empty(), listed.is_empty()) {
        (true, true) => vec![Pipes { prefix: None, count: PIPES }],
        _ => pipes,
    };
    let mut groups = piped(input, &pipes)?;
    for list in listed {
        let names = list.split_whitespace().map(PortName::parse_classic);
        groups.push(Group { ports: names.collect::<Result<_, _>>()? });
    }
    check(&groups)?;
    Ok(groups)
}

/// Pipes by their parent's name; groups of one name go on counting.
fn piped(input: &PortName, pipes: &[Pipes]) -> Result<Vec<Group>, Failure> {
    let mut next = HashMap::<String, u32>::new();
    let mut groups = Vec::new();
    for Pipes { prefix, count } in pipes {
        let parent = prefix.clone().unwrap_or_else(|| input.name.clone());
        let first = next.entry(parent.clone()).or_default();
        let names = (*first..*first + u32::from(*count))
            .map(|number| PortName::parse_classic(&format!("{parent}{{{number}")));
        groups.push(Group { ports: names.collect::<Result<_, _>>()? });
        *first += u32::from(*count);
    }
    Ok(groups)
}

fn check(groups: &[Group]) -> Result<(), Failure> {
    let count: usize = groups.iter().map(|group| group.ports.len()).sum();
    if count > MAX_OUTPUTS || groups.iter().any(|group| group.ports.is_empty()) {
        return Err(Diagnostic::new(codes::SR0004, format!("{count} outputs are given"))
            .with_cause(format!("a group has an output, and all groups have at most {MAX_OUTPUTS}"))
            .with_help("list outputs: --outputs 'tap:a tap:b'")
            .into());
    }
    let pipe = groups.iter().flat_map(|group| &group.ports).find(|name| !is_reachable(name));
    pipe.map_or(Ok(()), |name| Err(unreachable(name).into()))
}

/// Whether anybody can read what goes to an output. The far end of a pipe is another process's,
/// and pipes of this one are seen by nobody else.
fn is_reachable(name: &PortName) -> bool {
    name.pipe.is_none()
}

fn unreachable(name: &PortName) -> Diagnostic {
    let needs = "pipes between processes are not part of this version";
    let cause = OpenCause::Unsupported { what: "a pipe to another program".to_owned(), needs };
    let error = OpenError::new(name, cause);
    Diagnostic::of(&error).with_help(
        "list ports that others can read: slipring lb -i netmap:eth0 --outputs 'tap:a tap:b'",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[Group]) -> Vec<Vec<String>> {
        groups.iter().map(|group| group.ports.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn pipes_are_named_and_counted_as_in_the_classic_program() {
        let input = PortName::parse_classic("eth0").unwrap();
        let pipes: Vec<Pipes> = ["2", "x:1", "1", "x:"].map(|text| text.parse().unwrap()).into();
        let groups = piped(&input, &pipes).unwrap();
        let wanted = [vec!["eth0{0", "eth0{1"], vec!["x{0"], vec!["eth0{2"], vec!["x{1", "x{2"]];
        let names = names(&groups);
        for (names, wanted) in names.iter().zip(wanted) {
            assert!(names.iter().zip(wanted).all(|(name, end)| name.ends_with(end)), "{names:?}");
        }
    }

    #[test]
    fn wrong_groups_are_refused_with_words() {
        let refused = |text: &str| text.parse::<Pipes>().unwrap_err();
        assert_eq!(refused(":2"), "there is no prefix before the `:`");
        assert_eq!(refused("0"), "a group has at least one pipe");
        assert_eq!(refused("x:many"), "expected [PREFIX:]NUMBER");
        assert_eq!(refused(""), "expected [PREFIX:]NUMBER");
    }

    #[test]
    fn pipes_that_nobody_could_read_are_refused_by_name() {
        let input = PortName::parse_classic("eth0").unwrap();
        let error = groups(&input, Vec::new(), &[]).unwrap_err();
        let Failure::Error(error) = error else { panic!("{error:?}") };
        assert!(error.to_text(false).contains("pipes between processes"), "{error:?}");
        let listed = groups(&input, Vec::new(), &["null: null:".to_owned(), "tap:x".to_owned()]);
        assert_eq!(names(&listed.unwrap()), [vec!["null:", "null:"], vec!["tap:x"]]);
        assert!(groups(&input, Vec::new(), &[" ".to_owned()]).is_err());
    }
}
