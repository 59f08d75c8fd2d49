//! The commands of netmap-fwd's socket. The names of commands may be abbreviated, and their letter
//! case does not matter.

use std::net::Ipv4Addr;

/// A command, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompatCommand {
    /// `route`, `route show`.
    Routes,
    /// `route get ADDRESS[/LENGTH]`: with a length, the route of this prefix; without, the route of
    /// packets for the address.
    RouteGet(Ipv4Addr, Option<u8>),
    /// `route add PREFIX GATEWAY`.
    RouteAdd((Ipv4Addr, u8), Ipv4Addr),
    /// `route delete PREFIX [GATEWAY]`.
    RouteDelete((Ipv4Addr, u8), Option<Ipv4Addr>),
    /// `arp`.
    Neighbours,
    /// `arp -d ADDRESS`; `arp -d -a` for `None`.
    NeighbourDelete(Option<Ipv4Addr>),
    Ifconfig,
    Status,
    /// `cli`: the number of clients.
    Clients,
    Help,
    /// `help route`.
    RouteHelp,
    Quit,
    Shutdown,
}

/// The names of the commands. An abbreviation stands for the first name that begins with it.
const NAMES: [&str; 9] =
    ["route", "arp", "ifconfig", "status", "shutdown", "quit", "help", "cli", "?"];

impl CompatCommand {
    /// Parses the words of a line; `None` if they are not a command.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let name = NAMES.into_iter().find(|name| is_short_for(first, name))?;
        Some(match name {
            "route" => return Self::parse_route(rest),
            "arp" => return Self::parse_arp(rest),
            "ifconfig" => Self::Ifconfig,
            "status" => Self::Status,
            "shutdown" => Self::Shutdown,
            "quit" => Self::Quit,
            "cli" => Self::Clients,
            _ if rest.first().is_some_and(|word| is_short_for(word, "route")) => Self::RouteHelp,
            _ => Self::Help,
        })
    }

    fn parse_route(words: &[&str]) -> Option<Self> {
        let Some((verb, args)) = words.split_first() else { return Some(Self::Routes) };
        let verbs = ["show", "get", "add", "delete", "help"];
        let verb = verbs.into_iter().find(|known| is_short_for(verb, known))?;
        match (verb, args) {
            ("show", []) => Some(Self::Routes),
            ("help", _) => Some(Self::RouteHelp),
            ("get", [text]) => {
                let (address, len) = split_prefix(text)?;
                Some(Self::RouteGet(address, len))
            }
            ("add", [to, via]) => Some(Self::RouteAdd(prefix(to)?, via.parse().ok()?)),
            ("delete", [to]) => Some(Self::RouteDelete(prefix(to)?, None)),
            ("delete", [to, via]) => Some(Self::RouteDelete(prefix(to)?, Some(via.parse().ok()?))),
            _ => None,
        }
    }

    fn parse_arp(words: &[&str]) -> Option<Self> {
        match words {
            [] => Some(Self::Neighbours),
            ["-d", "-a"] => Some(Self::NeighbourDelete(None)),
            ["-d", host] => Some(Self::NeighbourDelete(Some(host.parse().ok()?))),
            _ => None,
        }
    }
}

/// Whether a word is the start of another one.
pub(crate) fn is_short_for(word: &str, name: &str) -> bool {
    name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn split_prefix(text: &str) -> Option<(Ipv4Addr, Option<u8>)> {
    let Some((address, len)) = text.split_once('/') else {
        return Some((text.parse().ok()?, None));
    };
    let len = len.parse().ok().filter(|len| *len <= 32)?;
    Some((network(address.parse().ok()?, len), Some(len)))
}

/// Parses a prefix and clears its host bits. An address without a length is a prefix of full
/// length.
fn prefix(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, len) = split_prefix(text)?;
    Some((address, len.unwrap_or(32)))
}

/// The mask of a prefix of this length.
pub(crate) fn mask(len: u8) -> Ipv4Addr {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or_default().into()
}

fn network(address: Ipv4Addr, len: u8) -> Ipv4Addr {
    (address.to_bits() & mask(len).to_bits()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<CompatCommand> {
        CompatCommand::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn words_may_be_abbreviated() {
        for line in ["route", "ROUTE show", "r", "ro s"] {
            assert_eq!(parse(line), Some(CompatCommand::Routes), "{line}");
        }
        assert_eq!(parse("a"), Some(CompatCommand::Neighbours));
        assert_eq!(parse("s"), Some(CompatCommand::Status), "not shutdown");
        assert_eq!(parse("sh"), Some(CompatCommand::Shutdown));
        assert_eq!(parse("? route"), Some(CompatCommand::RouteHelp));
    }

    #[test]
    fn routes_are_read_with_their_host_bits_cleared() {
        let [net, host, via] = [[10, 1, 0, 0], [10, 1, 2, 3], [10, 9, 0, 1]].map(Ipv4Addr::from);
        let add = CompatCommand::RouteAdd((net, 16), via);
        assert_eq!(parse("route add 10.1.2.3/16 10.9.0.1"), Some(add));
        assert_eq!(parse("r d 10.1.2.3"), Some(CompatCommand::RouteDelete((host, 32), None)));
        assert_eq!(parse("route get 10.1.2.3"), Some(CompatCommand::RouteGet(host, None)));
    }

    #[test]
    fn anything_else_is_invalid() {
        let lines = ["", "x", "routes", "route add 10.0.0.0/8", "route add 10.0.0.0/33 10.0.0.1"];
        let more =
            ["route get", "route get fe80::1", "arp -d", "arp -a", "route show 1.2.3.4", "é"];
        for line in lines.into_iter().chain(more) {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
