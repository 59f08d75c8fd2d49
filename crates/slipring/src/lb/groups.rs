//! Groups of outputs: each group gets every frame, on one of its outputs.
//!
//! | typed | outputs |
//! |---|---|
//! | `-p 3` | pipes `INPUT{0` to `INPUT{2` |
//! | `-p x:2` | pipes `x{0` and `x{1` |
//! | `--outputs 'tap:a tap:b'` | these two |
//!
//! Other programs open the other ends of the pipes, so these are pipes of a netmap device: `-p x:2`
//! is short for `--outputs 'kernel:x{0 kernel:x{1'`.

use std::collections::HashMap;

use slipring_abi::name::{PortName, PortNameError, PortNameKind};
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::{OpenCause, OpenError};

/// Number of pipes of a group that is given without a number, as in netmap's `lb`.
const DEFAULT_PIPES: u16 = 2;
/// Maximum number of outputs in all groups together.
const MAX_OUTPUTS: usize = 4096;

/// Outputs that share the flows of the input.
#[derive(Debug, Clone)]
pub(super) struct OutputGroup {
    pub(super) ports: Vec<PortName>,
}

/// A group as typed by `-p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PipeGroup {
    prefix: Option<String>,
    count: u16,
}

impl std::str::FromStr for PipeGroup {
    type Err = String;

    /// Parses `[prefix:]number` or `prefix:`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (prefix, number) = match text.rsplit_once(':') {
            Some(("", _)) => return Err("there is no prefix before the `:`".to_owned()),
            Some((prefix, number)) => (Some(prefix.to_owned()), number),
            None => (None, text),
        };
        let count = match number {
            "" if prefix.is_some() => DEFAULT_PIPES,
            number => number.parse().map_err(|_| "expected [PREFIX:]NUMBER".to_owned())?,
        };
        if count == 0 {
            return Err("a group has at least one pipe".to_owned());
        }
        Ok(Self { prefix, count })
    }
}

/// Returns the groups of the command line: first those of `-p`, then those of `--outputs`. If
/// neither is given, returns one group of two pipes. Pipes are created on `device`; if it is
/// `None`, on the device of the input; if the input has none, on the default device.
pub(super) fn groups(
    input: &PortName,
    pipes: Vec<PipeGroup>,
    device: Option<&String>,
    listed: &[String],
) -> Result<Vec<OutputGroup>, Failure> {
    let pipes = match (pipes.is_empty(), listed.is_empty()) {
        (true, true) => vec![PipeGroup { prefix: None, count: DEFAULT_PIPES }],
        _ => pipes,
    };
    let mut groups = piped(input, &pipes, device.or(input.device.as_ref()))?;
    for list in listed {
        let names = list.split_whitespace().map(PortName::parse_classic);
        groups.push(OutputGroup { ports: names.collect::<Result<_, _>>()? });
    }
    check(input, &groups)?;
    Ok(groups)
}

/// Returns the pipes of all `-p` groups. If several groups have the same parent name, their pipes
/// are numbered consecutively.
fn piped(
    input: &PortName,
    pipes: &[PipeGroup],
    device: Option<&String>,
) -> Result<Vec<OutputGroup>, Failure> {
    let pipe = |parent: &str, number| {
        let name = PortName::parse(&format!("kernel:{parent}{{{number}"));
        let mut name = name.map_err(|error| unnamed(parent, input, error))?;
        name.device = device.cloned();
        Ok::<_, Failure>(name)
    };
    let mut next = HashMap::<String, u32>::new();
    let mut groups = Vec::new();
    for PipeGroup { prefix, count } in pipes {
        let parent = prefix.clone().unwrap_or_else(|| input.name.clone());
        let first = next.entry(parent.clone()).or_default();
        let names = (*first..*first + u32::from(*count)).map(|number| pipe(&parent, number));
        groups.push(OutputGroup { ports: names.collect::<Result<_, _>>()? });
        *first += u32::from(*count);
    }
    Ok(groups)
}

fn check(input: &PortName, groups: &[OutputGroup]) -> Result<(), Failure> {
    let count: usize = groups.iter().map(|group| group.ports.len()).sum();
    if count > MAX_OUTPUTS || groups.iter().any(|group| group.ports.is_empty()) {
        return Err(Diagnostic::new(codes::SR0004, format!("{count} outputs are given"))
            .with_cause(format!("a group has an output, and all groups have at most {MAX_OUTPUTS}"))
            .with_help("list outputs: --outputs 'tap:a tap:b'")
            .into());
    }
    for name in groups.iter().flat_map(|group| &group.ports) {
        if name.pipe.is_some() && name.kind != PortNameKind::Kernel {
            return Err(unreachable(name).into());
        }
        if is_same_pipe(name, input) {
            return Err(loops(name, input).into());
        }
    }
    Ok(())
}

/// Builds the error for a parent name that cannot have pipes. The text quotes what the user typed.
fn unnamed(parent: &str, input: &PortName, error: PortNameError) -> Failure {
    if parent != input.name {
        return error.into();
    }
    Diagnostic::new(codes::SR0003, format!("pipes cannot be named after {input}"))
        .with_cause("without a prefix, pipes are called as the interface or the port that is read")
        .with_help("give them a name: -p x:2; or list outputs: --outputs 'tap:a tap:b'")
        .into()
}

/// Builds the error for an output that is a pipe within this process: no other process could open
/// its other end.
fn unreachable(name: &PortName) -> Diagnostic {
    let needs = "another program at its other end, which pipes of this process never have";
    let cause = OpenCause::Unsupported { what: "a pipe of its own".to_owned(), needs };
    let error = OpenError::new(name, cause);
    let shown = name.to_string();
    let plain = shown.strip_prefix("netmap:").unwrap_or(&shown);
    Diagnostic::of(&error).with_help(format!("name it on the netmap device: kernel:{plain}"))
}

/// Returns whether both names are ends of the same pipe.
fn is_same_pipe(one: &PortName, other: &PortName) -> bool {
    let (Some(end), Some(other_end)) = (&one.pipe, &other.pipe) else { return false };
    let same_parent =
        one.kind == other.kind && one.device == other.device && one.name == other.name;
    same_parent && end.id == other_end.id
}

fn loops(name: &PortName, input: &PortName) -> Diagnostic {
    Diagnostic::new(
        codes::SR0002,
        format!("{name} is an end of the pipe that the frames come from"),
    )
    .with_cause(format!("the input is {input}, so what goes there would come back or be lost"))
    .with_help("name the group's pipes after something else: -p out:2")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[OutputGroup]) -> Vec<Vec<String>> {
        groups.iter().map(|group| group.ports.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn pipes_are_named_and_counted_as_in_the_classic_program() {
        let input = PortName::parse_classic("eth0").unwrap();
        let pipes: Vec<PipeGroup> =
            ["2", "x:1", "1", "x:"].map(|text| text.parse().unwrap()).into();
        let wanted = [
            vec!["kernel:eth0{0", "kernel:eth0{1"],
            vec!["kernel:x{0"],
            vec!["kernel:eth0{2"],
            vec!["kernel:x{1", "kernel:x{2"],
        ];
        assert_eq!(names(&groups(&input, pipes, None, &[]).unwrap()), wanted);
    }

    #[test]
    fn pipes_are_made_on_the_device_that_has_the_input_or_that_was_named() {
        let input = PortName::parse("kernel:eth0@/run/a").unwrap();
        let on = |device: Option<&String>| names(&groups(&input, Vec::new(), device, &[]).unwrap());
        assert_eq!(on(None), [["kernel:eth0{0@/run/a", "kernel:eth0{1@/run/a"]]);
        assert_eq!(on(Some(&"/b".to_owned())), [["kernel:eth0{0@/b", "kernel:eth0{1@/b"]]);
    }

    #[test]
    fn wrong_groups_are_refused_with_words() {
        let refused = |text: &str| text.parse::<PipeGroup>().unwrap_err();
        assert_eq!(refused(":2"), "there is no prefix before the `:`");
        assert_eq!(refused("0"), "a group has at least one pipe");
        assert_eq!(refused("x:many"), "expected [PREFIX:]NUMBER");
        assert_eq!(refused(""), "expected [PREFIX:]NUMBER");
    }

    /// Returns the error text of refused groups.
    fn refused(input: &str, listed: &str) -> String {
        let input = PortName::parse_classic(input).unwrap();
        let listed: Vec<_> =
            Some(listed.to_owned()).filter(|list| !list.is_empty()).into_iter().collect();
        let Err(Failure::Error(error)) = groups(&input, Vec::new(), None, &listed) else {
            panic!("{listed:?} is taken")
        };
        error.to_text(false)
    }

    #[test]
    fn pipes_that_nobody_could_read_are_refused_with_those_that_can_be() {
        let error = refused("eth0", "x{1");
        assert!(error.contains("name it on the netmap device: kernel:x{1"), "{error}");
        assert!(refused("eth0", " ").contains("0 outputs are given"));
        let input = PortName::parse_classic("eth0").unwrap();
        let listed = ["null: null:".to_owned(), "tap:x kernel:y{1".to_owned()];
        let listed = groups(&input, Vec::new(), None, &listed).unwrap();
        assert_eq!(names(&listed), [vec!["null:", "null:"], vec!["tap:x", "kernel:y{1"]]);
    }

    #[test]
    fn the_pipe_that_frames_come_from_is_no_output() {
        assert!(refused("kernel:x}1", "").contains("is an end of the pipe"));
        assert!(refused("kernel:x}1", "kernel:x}1").contains("is an end of the pipe"));
    }

    #[test]
    fn an_input_after_which_no_pipe_can_be_called_is_told_as_it_was_typed() {
        for input in ["null:", "pcap:/tmp/a.pcap"] {
            let message = refused(input, "");
            assert!(message.contains(&format!("named after {input}")), "{message}");
        }
    }
}
