//! Tests of interface queues that programs sync in their own processes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::builds::c_program_with_library;
use super::stage::Stage;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c_program_with_library("queues"))
}

/// Shell commands for a cable with one queue in each direction. The host sends nothing on it by
/// itself.
const CABLE: &str = "
    ip link add near numtxqueues 1 numrxqueues 1 type veth peer name far numtxqueues 1 numrxqueues 1
    ip link set near addrgenmode none
    ip link set far addrgenmode none
    ip link set near up
    ip link set far up";

/// Defines one test per scenario of `tests/c/queues.c`. Each scenario runs twice: with syncs in
/// the process of the program, and with syncs by the device.
macro_rules! scenarios {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            for wish in ["NETMAP_INPROCESS=1", "NETMAP_INPROCESS=0"] {
                let (stage, program) = (Stage::new(), program().to_str().unwrap());
                stage.shell(CABLE);
                let daemon = format!("DAEMON={}", stage.daemon());
                stage.run("env", &[wish, &daemon, program, stringify!($name)]);
            }
        }
    )*};
}

scenarios! {
    an_interface_is_synced_in_the_program_without_the_device
    who_sleeps_is_woken_by_a_frame
    two_openers_of_an_interface_take_turns
    an_interface_is_closed_and_opened_again
    packets_of_several_slots_are_the_devices
    a_monitor_sees_what_the_program_would_sync_itself
    a_program_killed_in_mid_sync_leaves_all_as_it_should_be
    who_keeps_a_socket_keeps_the_queue
    words_that_make_no_sense_hurt_who_wrote_them
    an_interface_that_is_down_is_silent_and_goes_on_when_it_is_up
    an_interface_that_comes_again_is_another_one
    a_number_that_was_closed_unsaid_is_another_files
    the_end_of_the_daemon_is_told_to_who_never_sleeps
}
