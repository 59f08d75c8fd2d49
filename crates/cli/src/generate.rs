//! Manual pages and completion scripts, from the flag tables.
//!
//! For each word, the completion scripts of bash, zsh and fish run `slipring candidates`, which
//! knows commands, flags, ports, runs and codes. The scripts of elvish and powershell are static,
//! and know only commands and flags.

use std::fmt::Write as _;

use clap::Command;
use clap_complete::Shell;

use crate::Exit;

/// Returns the manual page of one command, in roff.
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

/// Returns every manual page with its file name: the program's own, one for each command and
/// subcommand that is not hidden, and one for each classic name that is not the command's own name.
/// The page of a classic name only includes the page of the command.
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

/// Adds the page of a command and the pages of its subcommands. For `slipring emulate ctl`, `typed`
/// is `slipring emulate`, and `named`, the start of the page's name, is `slipring-emulate`.
fn add_pages(pages: &mut Vec<(String, Vec<u8>)>, command: &Command, named: &str, typed: &str) {
    let (name, words) =
        (format!("{named}-{}", command.get_name()), format!("{typed} {}", command.get_name()));
    // The `help` subcommand has no page, because it prints what the pages contain.
    let titled = command.clone().display_name(name.clone()).bin_name(words.clone());
    pages.push((format!("{name}.1"), man(&titled.disable_help_subcommand(true))));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        add_pages(pages, inner, &name, &words);
    }
}

/// Returns the completion script of a shell for the whole program.
#[must_use]
pub fn completions(program: &Command, shell: Shell) -> Vec<u8> {
    let name = program.get_name().to_owned();
    let asking = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut program.clone(), &name, &mut script);
            return script;
        }
    };
    asking.replace("PROGRAM", &name).into_bytes()
}

fn exit_section() -> String {
    let mut section = ".SH \"EXIT STATUS\"\n".to_owned();
    for exit in Exit::ALL {
        let _ = write!(section, ".TP\n{}\n{exit}\n", exit.status());
    }
    section.push_str(".PP\nUnder a classic name a failure gives that program's own status.\n");
    section
}

/// Bash splits words at the colons of port names, and replaces only the text after the last colon.
/// So the script removes the text up to that colon from the candidates.
const BASH: &str = r#"_PROGRAM() {
    local line="${COMP_LINE:0:COMP_POINT}" word words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    word="${words[-1]}"
    mapfile -t COMPREPLY < <(PROGRAM candidates -- "${words[@]}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%:*}:"}")
    fi
    if [[ "$word" == --*=* && "$COMP_WORDBREAKS" == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
    fi
}
complete -F _PROGRAM -o nosort -o bashdefault -o default PROGRAM
"#;

const ZSH: &str = r#"#compdef PROGRAM

_PROGRAM() {
    local -a found plain
    local line
    for line in "${(@f)$(PROGRAM candidates -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        [[ -n "$line" ]] || continue
        plain+=("${line%%$'\t'*}")
        found+=("${line/$'\t'/  -- }")
    done
    if (( $#plain )); then
        compadd -l -d found -a plain
    else
        _files
    fi
}

if [ "$funcstack[1]" = "_PROGRAM" ]; then
    _PROGRAM "$@"
else
    compdef _PROGRAM PROGRAM
fi
"#;

const FISH: &str = r#"function __PROGRAM_candidates
    set -l last (commandline -ct)
    set -l found (PROGRAM candidates -- (commandline -opc) "$last" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path "$last"
    end
end

complete -c PROGRAM -f -a '(__PROGRAM_candidates)'
"#;
