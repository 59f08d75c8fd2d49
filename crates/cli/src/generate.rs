//! Manual pages and completion scripts, from the flag tables.
//!
//! Completion scripts are static but for port names: bash, zsh and fish ask
//! `slipring ports --names` when a flag takes a [`PORT`](crate::flags::PORT_VALUE); elvish and
//! powershell complete commands and flags only.

use std::fmt::Write as _;

use clap::{Arg, Command};
use clap_complete::Shell;

use crate::Exit;
use crate::flags::PORT_VALUE;

/// The manual page of one command, in roff.
#[must_use]
pub fn man(command: &Command) -> Vec<u8> {
    let mut page = Vec::new();
    let title = command.get_display_name().unwrap_or(command.get_name());
    clap_mangen::Man::new(command.clone())
        .title(title)
        .source(format!("slipring {}", command.get_version().unwrap_or_default()))
        .manual("slipring")
        .render(&mut page)
        .expect("writing to memory cannot fail");
    page.extend_from_slice(exit_section().as_bytes());
    page
}

/// Every page of the program, with its file name: the program's own, one for each command that is
/// not hidden, and a pointer for each classic name.
#[must_use]
pub fn man_pages(program: &Command) -> Vec<(String, Vec<u8>)> {
    let root = program.get_name();
    let mut pages = vec![(format!("{root}.1"), man(program))];
    for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{root}-{}", verb.get_name());
        add_pages(&mut pages, verb, root, root);
        for classic in verb.get_visible_aliases() {
            let pointer = format!(".so man1/{name}.1\n");
            pages.push((format!("{root}-{classic}.1"), pointer.into_bytes()));
        }
    }
    pages
}

/// The page of a command, and those of its own: `typed` stands before it on the command line,
/// `named` before its name.
fn add_pages(pages: &mut Vec<(String, Vec<u8>)>, command: &Command, named: &str, typed: &str) {
    let (name, words) =
        (format!("{named}-{}", command.get_name()), format!("{typed} {}", command.get_name()));
    // What `help` says stands in the pages.
    let titled = command.clone().display_name(name.clone()).bin_name(words.clone());
    pages.push((format!("{name}.1"), man(&titled.disable_help_subcommand(true))));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        add_pages(pages, inner, &name, &words);
    }
}

/// The completion script of a shell for the whole program.
#[must_use]
pub fn completions(program: &Command, shell: Shell) -> Vec<u8> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program.clone(), &name, &mut script);
    let script = String::from_utf8(script).expect("clap writes UTF-8");
    let script = match shell {
        Shell::Bash => script + &bash_ports(program),
        Shell::Zsh => zsh_ports(&name, &script),
        Shell::Fish => script + &fish_ports(program),
        _ => script,
    };
    script.into_bytes()
}

fn exit_section() -> String {
    let mut section = ".SH \"EXIT STATUS\"\n".to_owned();
    for exit in Exit::ALL {
        let _ = write!(section, ".TP\n{}\n{exit}\n", exit.status());
    }
    section.push_str(".PP\nUnder a classic name a failure gives that program's own status.\n");
    section
}

/// Wraps clap's function, since bash splits words at the colons that port names are full of.
fn bash_ports(program: &Command) -> String {
    let name = program.get_name();
    let flags = port_flags(program).join("|");
    format!(
        r#"
_{name}_or_ports() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" word words before
    read -ra words <<< "$line"
    word="${{words[-1]}}"
    before="${{words[-2]}}"
    if [[ "$line" == *[[:space:]] ]]; then
        before="$word"
        word=""
    fi
    case "$before" in
        {flags})
            COMPREPLY=($(compgen -W "$({name} ports --names 2>/dev/null)" -- "$word"))
            if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
                COMPREPLY=("${{COMPREPLY[@]#"${{word%:*}}:"}}")
            fi
            ;;
        *)
            _{name} "$@"
            ;;
    esac
}}
complete -F _{name}_or_ports -o nosort -o bashdefault -o default {name}
"#
    )
}

/// Puts our function where clap has none for the value.
fn zsh_ports(name: &str, script: &str) -> String {
    let function = format!(
        "_{name}_ports() {{\n    local -a names\n    names=(${{(f)\"$({name} ports --names \
         2>/dev/null)\"}})\n    compadd -a names\n}}\n\n"
    );
    let asked = format!(":{PORT_VALUE}:_{name}_ports");
    let script = script.replace(&format!(":{PORT_VALUE}:_default"), &asked);
    let (header, body) = script.split_once('\n').unwrap_or((&script, ""));
    format!("{header}\n\n{function}{body}")
}

fn fish_ports(program: &Command) -> String {
    let name = program.get_name();
    let mut lines = String::new();
    for verb in program.get_subcommands() {
        let names = verb.get_name_and_visible_aliases().join(" ");
        for arg in verb.get_arguments().filter(|arg| takes_port(arg)) {
            let _ = write!(lines, "complete -c {name} -n \"__fish_seen_subcommand_from {names}\"");
            if let Some(short) = arg.get_short() {
                let _ = write!(lines, " -s {short}");
            }
            if let Some(long) = arg.get_long() {
                let _ = write!(lines, " -l {long}");
            }
            let _ = writeln!(lines, " -x -a \"({name} ports --names 2>/dev/null)\"");
        }
    }
    lines
}

/// Every spelling of a flag that takes a port, in any command.
fn port_flags(program: &Command) -> Vec<String> {
    let verbs = program.get_subcommands();
    let args = verbs.flat_map(|verb| verb.get_arguments().filter(|arg| takes_port(arg)));
    let spellings = args.flat_map(|arg| {
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        short.into_iter().chain(long)
    });
    let mut flags: Vec<_> = spellings.collect();
    flags.sort();
    flags.dedup();
    flags
}

fn takes_port(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == PORT_VALUE))
}
