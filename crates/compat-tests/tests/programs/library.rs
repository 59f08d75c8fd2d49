//! Tests of the C library and of the client that consists only of headers, with programs that use
//! them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use slipring_test_support::tree::stdout;

use super::builds::{c_program_with_library, c_source_as, libnetmap};
use super::stage::Stage;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c_program_with_library("library"))
}

/// Defines one test per scenario of `tests/c/library.c`. Each scenario runs twice: with syncs in
/// the process of the program, and with syncs by the device.
macro_rules! scenarios {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            for wish in ["NETMAP_INPROCESS=1", "NETMAP_INPROCESS=0"] {
                let program = program().to_str().unwrap();
                Stage::new().run("env", &[wish, program, stringify!($name)]);
            }
        }
    )*};
}

scenarios! {
    header_structures_have_netmaps_layout
    nm_open_moves_frames_through_a_pipe
    nm_open_takes_the_memory_of_its_parent
    nm_open_takes_names_and_numbers_from_its_parent
    nm_open_refuses_what_it_does_not_know
    nm_parse_knows_every_form
    nm_dispatch_says_whether_there_are_more
    nm_inject_spreads_a_long_frame_over_slots
    nmport_moves_frames_through_a_pipe
    nmport_opens_in_steps_and_undoes_each
    nmport_ports_of_one_memory_share_a_mapping
    mappings_are_not_shared_between_users
    nmport_clone_asks_for_the_same
    nmport_share_asks_the_device
    empty_memory_numbers_and_trailing_text_are_refused
    nmport_says_which_option_was_refused
    nmport_failed_parse_leaves_nothing
    nmport_brings_memory_from_a_file
    nmport_brings_memory_of_its_own
    nmreq_options_are_a_list
    nmreq_options_decode_by_tables
    contexts_give_memory_and_take_messages
    threads_open_and_close_at_once
    a_pipe_is_synced_in_the_program_without_the_device
    who_sleeps_is_woken_by_a_sync_in_another_thread
    forks_and_second_openers_share_the_rings
    wrong_indices_are_the_devices_to_judge
    a_port_that_is_no_pipe_is_the_devices
}

/// Builds `tests/c/where.c` as `program`, runs it, and returns its output, which says where syncs
/// are done.
fn synced(program: &str, build: &[&str], library_path: Option<&Path>) -> String {
    let (stage, program) = (Stage::new(), c_source_as(program, "where", build));
    let mut run = stage.command(program);
    // The loader searches this path before the installed libraries.
    run.env("LD_LIBRARY_PATH", library_path.unwrap_or(Path::new("/nonexistent")));
    stdout(run.output().unwrap())
}

#[test]
fn a_program_that_knows_only_the_headers_syncs_by_the_library_if_it_can_be_loaded() {
    assert_eq!(synced("where-loads", &[], Some(libnetmap())), "here, here\n");
}

#[test]
fn a_static_program_that_knows_only_the_headers_works_by_the_device() {
    assert_eq!(
        synced("where-static", &["-static"], Some(libnetmap())),
        "by the device, by the device\n"
    );
}

#[test]
fn a_program_finds_the_library_that_it_is_linked_with() {
    let directory = format!("-L{}", libnetmap().display());
    let shared = ["-Wl,--no-as-needed", &directory, "-lnetmap"];
    assert_eq!(synced("where-shared", &shared, Some(libnetmap())), "here, here\n");
    let library = libnetmap().join("libnetmap.a");
    let archive = ["-DNETMAP_INPROCESS_LINKED", library.to_str().unwrap(), "-lgcc_s", "-lm"];
    assert_eq!(synced("where-archive", &archive, None), "here, here\n");
}
