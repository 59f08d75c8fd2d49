//! netmap-fwd's configuration: flat keys in the syntax of libucl.
//!
//! netmap-fwd does not start without the file or without `event_backend`, and resolves no neighbour
//! without `arp_max_tries`. Here, each key and the file itself are optional.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use slipring_cli::codes::{SR0003, SR0009, SR0010};
use slipring_cli::config::read_text;
use slipring_cli::{Diagnostic, flags};

const DEFAULT_SOCKET: &str = "/var/run/netmap-fwd.sock";
const DEFAULT_MAX_CLIENTS: usize = 10;
const KEYS: [&str; 5] =
    ["pidfile", "event_backend", "cli_max_clients", "cli_socket_path", "arp_max_tries"];

/// The settings of `-f FILE` and of netmap-fwd's flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompatSettings {
    pub(crate) socket: PathBuf,
    pub(crate) max_clients: usize,
    pub(crate) pidfile: Option<PathBuf>,
    /// Settings that have no effect here, each with the reason.
    pub(crate) notes: Vec<String>,
}

impl Default for CompatSettings {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.into(),
            max_clients: DEFAULT_MAX_CLIENTS,
            pidfile: None,
            notes: Vec::new(),
        }
    }
}

/// Refuses flags of netmap-fwd that have no effect without its interface.
fn refuse_without_compat(matches: &ArgMatches) -> Result<(), Diagnostic> {
    let flags = [
        ("-f", matches.contains_id("compat-config")),
        ("-H", matches.get_flag("no-host-ring")),
        ("-b", matches.contains_id("burst")),
    ];
    let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Diagnostic::new(SR0003, format!("{flag} has no effect without --compat"))
        .with_cause("it is a flag of netmap-fwd")
        .with_help(match flag {
            "-f" => "add --compat; the router's own file is that of --config",
            _ => "leave it out, or add --compat",
        }))
}

impl CompatSettings {
    /// Returns the settings of a command line; `None` if it does not request netmap-fwd's
    /// interface.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Option<Self>, Diagnostic> {
        if !matches.get_flag("compat") && !flags::is_called_by_classic_name(matches) {
            return refuse_without_compat(matches).map(|()| None);
        }
        let mut settings = match matches.get_one::<PathBuf>("compat-config") {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        if matches.get_flag("no-host-ring") {
            let why = "-H has no effect: the kernel keeps its interfaces, and answers for them";
            settings.notes.push(why.to_owned());
        }
        if matches.get_one::<u32>("burst").is_some() {
            settings
                .notes
                .push("-b has no effect: the engines choose the size of batches".to_owned());
        }
        Ok(Some(settings))
    }

    fn read(path: &Path) -> Result<Self, Diagnostic> {
        Self::parse(&read_text(path)?).map_err(|fault| fault.diagnostic(path))
    }

    fn parse(text: &str) -> Result<Self, SettingsFault> {
        let mut settings = Self::default();
        for (line, statement) in statements(text) {
            let (key, value) = key_and_value(&statement)
                .ok_or_else(|| SettingsFault::syntax(line, "a key has no value"))?;
            settings.set(&key, &value).map_err(|cause| SettingsFault { line, ..cause })?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingsFault> {
        let number = || {
            let number = value.parse::<usize>().ok();
            number.filter(|number| *number > 0).ok_or_else(|| {
                SettingsFault::value(format!(
                    "`{key}` takes a number greater than 0, not `{value}`"
                ))
            })
        };
        match key.to_ascii_lowercase().as_str() {
            "pidfile" => self.pidfile = Some(value.into()),
            "cli_socket_path" => self.socket = value.into(),
            "cli_max_clients" => self.max_clients = number()?,
            "event_backend" if ["poll", "kqueue"].contains(&value) => {
                self.notes.push("event_backend has no effect: Linux has one for this".to_owned());
            }
            "event_backend" => {
                return Err(SettingsFault::value(format!(
                    "`event_backend` is poll or kqueue, not `{value}`"
                )));
            }
            "arp_max_tries" => {
                number()?;
                self.notes.push(
                    "arp_max_tries has no effect: the kernel asks for neighbours, and its \
                     net.ipv4.neigh.*.mcast_solicit says how often"
                        .to_owned(),
                );
            }
            other => return Err(SettingsFault::unknown(other)),
        }
        Ok(())
    }
}

/// An error in the file.
#[derive(Debug, PartialEq, Eq)]
struct SettingsFault {
    line: usize,
    cause: String,
    help: String,
    is_syntax: bool,
}

impl SettingsFault {
    fn syntax(line: usize, cause: &str) -> Self {
        let help = "write one key and its value a line: cli_max_clients = 10;".to_owned();
        Self { line, cause: cause.to_owned(), help, is_syntax: true }
    }

    fn value(cause: String) -> Self {
        let help = format!("the keys are {}", KEYS.join(", "));
        Self { line: 0, cause, help, is_syntax: false }
    }

    fn unknown(key: &str) -> Self {
        let fault = Self::value(format!("there is no key `{key}`"));
        let shared =
            |known: &&&str| known.bytes().zip(key.bytes()).take_while(|(a, b)| a == b).count();
        match KEYS.iter().max_by_key(shared).filter(|known| shared(known) >= 3) {
            Some(known) => Self { help: format!("did you mean `{known}`?"), ..fault },
            None => fault,
        }
    }

    fn diagnostic(self, path: &Path) -> Diagnostic {
        let code = if self.is_syntax { SR0009 } else { SR0010 };
        Diagnostic::new(code, format!("{}: the configuration cannot be used", path.display()))
            .with_cause(format!("line {}: {}", self.line, self.cause))
            .with_help(self.help)
    }
}

/// The statements of a file, without comments, with the numbers of their lines, from 1.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut statements = Vec::new();
    let (mut line, mut begun, mut statement) = (1, 1, String::new());
    let mut quoted = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            '/' if !quoted && statement.trim().is_empty() && rest.peek() == Some(&'*') => {
                line += skip_comment(&mut rest);
                continue;
            }
            _ => {}
        }
        let ends = c == '\n' || (!quoted && (c == ';' || c == ','));
        if !ends {
            if statement.trim().is_empty() {
                begun = line;
            }
            statement.push(c);
        } else {
            statements.push((begun, std::mem::take(&mut statement)));
        }
        line += usize::from(c == '\n');
    }
    statements.push((begun, statement));
    statements.retain(|(_, statement)| !statement.trim().is_empty());
    statements
}

/// Skips the rest of a comment that has begun; returns the number of line ends in it.
fn skip_comment(rest: &mut impl Iterator<Item = char>) -> usize {
    let (mut before, mut lines) = (' ', 0);
    // The first character is the `*` of `/*`.
    for c in rest.skip(1) {
        lines += usize::from(c == '\n');
        if before == '*' && c == '/' {
            break;
        }
        before = c;
    }
    lines
}

/// Splits `key = value`, `key: value` or `key value`, and removes quotes.
fn key_and_value(statement: &str) -> Option<(String, String)> {
    let statement = statement.trim();
    let end = statement.find(|c: char| c.is_whitespace() || c == '=' || c == ':')?;
    let (key, value) = statement.split_at(end);
    let value = value.trim_start();
    let value = value.strip_prefix(['=', ':']).unwrap_or(value).trim();
    let unquoted = |text: &str| text.trim_matches('"').to_owned();
    (!value.is_empty()).then(|| (unquoted(key), unquoted(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_read_in_each_form_of_libucl() {
        let text = "# the router\npidfile = \"/run/a;b#c.pid\"; # one\n/*/ two\nlines */\n\
                    CLI_MAX_CLIENTS: 3\ncli_socket_path /run/nf.sock; event_backend = poll\n\
                    arp_max_tries = 5 # tries\n";
        let settings = CompatSettings::parse(text).unwrap();
        assert_eq!(settings.pidfile.as_deref(), Some(Path::new("/run/a;b#c.pid")));
        assert_eq!(settings.socket, Path::new("/run/nf.sock"));
        assert_eq!((settings.max_clients, settings.notes.len()), (3, 2));
    }

    /// netmap-fwd exits without `event_backend`, and considers all hosts down without
    /// `arp_max_tries`.
    #[test]
    fn no_key_is_mandatory() {
        assert_eq!(CompatSettings::parse("\n"), Ok(CompatSettings::default()));
    }

    #[test]
    fn errors_name_the_line_and_a_similar_key() {
        let fault = |text: &str| CompatSettings::parse(text).unwrap_err();
        let unknown = fault("pidfile = /a\n\ncli_max_client = 3\n");
        assert_eq!((unknown.line, &*unknown.help), (3, "did you mean `cli_max_clients`?"));
        assert_eq!(fault("/*\n*/ cli_max_clients = none").line, 2);
        assert_eq!(fault("cli_max_clients = 0").line, 1);
        assert_eq!(fault("event_backend = epoll").line, 1);
        assert!(fault("pidfile").is_syntax);
    }
}
