//! Manual pages and completions, from the flag tables.

use std::process::{Command, Stdio};

use slipring_cli::{Shell, completions, man_pages};

use crate::stage::{PROGRAM, run};

fn script(shell: Shell) -> String {
    String::from_utf8(completions(&PROGRAM.command(), shell)).unwrap()
}

#[test]
fn every_visible_command_and_classic_name_has_a_page() {
    let pages = man_pages(&PROGRAM.command());
    let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "slipring.1",
            "slipring-gen.1",
            "slipring-pkt-gen.1",
            "slipring-bridge.1",
            "slipring-explain.1",
            "slipring-completions.1",
        ]
    );
}

#[test]
fn every_page_that_a_page_refers_to_is_written() {
    let inner = clap::Command::new("ctl").about("Ask").subcommand(clap::Command::new("set"));
    let verb = clap::Command::new("emulate").about("Pass").subcommand(inner);
    let pages = man_pages(&clap::Command::new("slipring").subcommand(verb));
    let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let all = [
        "slipring.1",
        "slipring-emulate.1",
        "slipring-emulate-ctl.1",
        "slipring-emulate-ctl-set.1",
    ];
    assert_eq!(names, all);
    for (name, page) in &pages[1..] {
        let text = String::from_utf8(page.clone()).unwrap().replace('\\', "");
        for word in text.split_whitespace().filter(|word| word.ends_with("(1)")) {
            let page = format!("{}.1", word.trim_end_matches("(1)"));
            assert!(names.contains(&page.as_str()), "{name} refers to {word}");
        }
    }
}

#[test]
fn a_page_tells_flags_and_exit_statuses() {
    let pages = man_pages(&PROGRAM.command());
    let text = String::from_utf8(pages[1].1.clone()).unwrap();
    assert!(text.contains("slipring\\-gen"), "{text}");
    for flag in ["\\-\\-interface", "\\-\\-json", "\\-\\-config"] {
        assert!(text.contains(flag), "{flag} in {text}");
    }
    assert!(text.contains("\"slipring 1.2.3\""), "{text}");
    assert!(text.contains("EXIT STATUS"), "{text}");
    assert!(text.contains(".TP\n3\nthe machine cannot"), "{text}");
    assert_eq!(pages[2].1, b".so man1/slipring-gen.1\n");
}

#[test]
fn pages_are_written_into_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&format!("slipring man {}", dir.path().display())).status, 0);
    assert!(dir.path().join("slipring-gen.1").exists());
    let missing = run("slipring man /nonexistent");
    assert_eq!(missing.status, 2);
    assert!(missing.talk.starts_with("error[SR0201]"), "{missing:?}");
}

#[test]
fn every_classic_name_is_listed_for_links_also_where_it_is_the_commands_own() {
    assert_eq!(run("slipring names").data, "pkt-gen\nbridge\n");
}

#[test]
fn the_three_shells_with_functions_ask_for_port_names() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        assert!(script(shell).contains("slipring ports --names"), "{shell}");
    }
    assert!(script(Shell::Zsh).contains(":PORT:_slipring_ports"));
    assert!(script(Shell::Zsh).starts_with("#compdef slipring\n"));
    assert!(
        script(Shell::Fish)
            .contains("__fish_seen_subcommand_from gen pkt-gen\" -s i -l interface -x")
    );
}

#[test]
fn every_shell_has_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = run(&format!("slipring completions {shell}"));
        assert_eq!(outcome.status, 0);
        assert!(outcome.data.contains("bridge"), "{shell}");
    }
    assert_eq!(run("slipring completions tcsh").status, 2);
}

/// Sources the script in a real bash with a `slipring` that knows two ports, and completes `line`.
fn completed_by_bash(line: &str) -> Option<Vec<String>> {
    let session = format!(
        r#"{script}
        slipring() {{ printf '%s\n' xdp:eth0 xdp:eth1 packet:eth0; }}
        COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}
        read -ra COMP_WORDS <<< "$COMP_LINE"
        [[ "$COMP_LINE" == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _slipring_or_ports slipring "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\n' "${{COMPREPLY[@]}}""#,
        script = script(Shell::Bash),
    );
    let bash =
        Command::new("bash").args(["--norc", "-c", &session]).stdin(Stdio::null()).output().ok()?;
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
    let text = String::from_utf8(bash.stdout).unwrap();
    Some(text.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn bash_completes_ports_behind_a_port_flag_and_flags_elsewhere() {
    let Some(ports) = completed_by_bash("slipring gen -i ") else {
        println!("skipped: bash is not installed");
        return;
    };
    assert_eq!(ports, ["xdp:eth0", "xdp:eth1", "packet:eth0"]);
    // Bash replaces only what follows the colon.
    let part = completed_by_bash("slipring gen --interface xdp:e").unwrap();
    assert_eq!(part, ["eth0", "eth1"]);
    let flags = completed_by_bash("slipring gen --fun").unwrap();
    assert_eq!(flags, ["--function"]);
}
