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
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        let outcome = run(&format!("slipring completions {shell}"));
        assert_eq!(outcome.status, 0);
        assert!(outcome.data.contains("slipring candidates -- "), "{shell}");
    }
    for shell in ["elvish", "powershell"] {
        let outcome = run(&format!("slipring completions {shell}"));
        assert!(outcome.data.contains("bridge"), "{shell}");
    }
    assert!(script(Shell::Zsh).starts_with("#compdef slipring\n"));
    assert_eq!(run("slipring completions tcsh").status, 2);
}

/// Each shell must accept its own completion script. The flag makes it read the script without
/// running it.
#[test]
fn the_shells_take_their_scripts() {
    for (shell, flag) in [(Shell::Bash, "-n"), (Shell::Zsh, "-n"), (Shell::Fish, "--no-execute")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, script(shell)).unwrap();
        match Command::new(shell.to_string()).arg(flag).arg(path).output() {
            Ok(done) => {
                let output = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success() && output.is_empty(), "{shell}: {output}");
            }
            Err(_) => println!("{shell} is not here to read its script"),
        }
    }
}

/// Candidates for the last word, without their meaning. `_` is an empty last word.
fn candidates(line: &str) -> Vec<String> {
    // A string of words separated by spaces cannot contain an empty word.
    let words = ["slipring", "candidates", "--"].into_iter().chain(line.split(' '));
    let words: Vec<_> = words.map(|word| if word == "_" { "" } else { word }.into()).collect();
    let outcome = crate::stage::run_words(&words);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    let lines = outcome.data.lines().map(|line| line.split('\t').next().unwrap().to_owned());
    lines.collect()
}

#[test]
fn commands_flags_and_values_are_candidates_where_they_can_stand() {
    assert_eq!(candidates("slipring br"), ["bridge"]);
    assert_eq!(candidates("slipring _"), ["gen", "pkt-gen", "bridge", "explain", "completions"]);
    assert_eq!(candidates("slipring gen --fun"), ["--function"]);
    assert_eq!(candidates("slipring gen -f _"), ["tx", "rx"]);
    assert_eq!(candidates("slipring pkt-gen --function=r"), ["--function=rx"]);
    assert_eq!(candidates("slipring gen --wait -f t"), ["tx"], "a switch takes no value");
    assert!(candidates("slipring gen -n _").is_empty(), "a number is the person's");
    assert!(candidates("slipring gen -- -").is_empty());
    let flags = candidates("slipring gen -");
    assert!(flags.contains(&"-f".to_owned()) && !flags.contains(&"--end".to_owned()), "{flags:?}");
}

#[test]
fn codes_are_candidates_with_their_titles() {
    let all = candidates("slipring explain _");
    assert!(all.len() > 20 && all.iter().all(|code| code.starts_with("SR0")), "{all:?}");
    let words = ["slipring", "candidates", "--", "slipring", "explain", "SR0201"].map(Into::into);
    let candidates = crate::stage::run_words(&words).data;
    assert!(candidates.starts_with("SR0201\t") && candidates.trim_end().len() > 10, "{candidates}");
}

#[test]
fn ports_are_candidates_wherever_a_port_can_stand() {
    let all = candidates("slipring gen -i _");
    assert!(all.starts_with(&["xdp:eth0", "xdp:eth1", "packet:eth0"].map(str::to_owned)));
    assert!(all.contains(&"null:".to_owned()) && all.contains(&"vfio:".to_owned()), "{all:?}");
    assert_eq!(candidates("slipring gen --interface xdp:e"), ["xdp:eth0", "xdp:eth1"]);
    let others = candidates("slipring bridge p");
    assert_eq!(others, ["packet:eth0", "packet:", "pcap:"], "one that is no flag's value");
    assert_eq!(candidates("slipring bridge xdp:eth0 xdp:"), ["xdp:eth0", "xdp:eth1"]);
}

#[test]
fn runs_that_go_on_are_candidates_by_their_names() {
    struct RefusingService;
    impl slipring_control::ControlService for RefusingService {
        fn answer(
            &self,
            _: &slipring_control::ControlRequest,
        ) -> Result<slipring_control::ControlReply, slipring_control::ControlRefusal> {
            Err(slipring_control::ControlRefusal::malformed("deaf"))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let server =
        slipring_control::ControlServer::open(dir.path(), Some("lab"), Box::new(RefusingService))
            .unwrap();
    let line = |words: &str| {
        let run_dir = dir.path().display();
        let words = format!("slipring candidates --run-dir {run_dir} -- slipring {words}");
        crate::stage::run(&words).data
    };
    let pid = std::process::id();
    assert_eq!(line("gen --peer l"), format!("lab\tprocess {pid}\n"));
    drop(server);
    assert_eq!(line("gen --peer l"), "");
}

/// Sources the script in a real bash, and completes `line` with a `slipring` that prints `answer`
/// for the candidates. Returns `None` if there is no bash.
fn completed_by_bash(line: &str, answer: &str) -> Option<Vec<String>> {
    let session = format!(
        r#"{script}
        slipring() {{ [[ "$1 $2 $3" == "candidates -- slipring" ]] && printf -- '{answer}'; }}
        COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}
        _slipring
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
fn bash_offers_words_without_their_meaning_and_only_what_is_behind_a_colon() {
    let ports = r"xdp:eth0\txdp on eth0\nxdp:eth1\n";
    let Some(whole) = completed_by_bash("slipring gen -i ", ports) else {
        slipring_test_support::skip!("bash is not installed");
        return;
    };
    assert_eq!(whole, ["xdp:eth0", "xdp:eth1"]);
    assert_eq!(
        completed_by_bash("slipring gen --interface xdp:e", ports).unwrap(),
        ["eth0", "eth1"]
    );
    let flag = completed_by_bash("slipring gen --function=r", r"--function=rx\n").unwrap();
    assert_eq!(flag, ["rx"]);
}
