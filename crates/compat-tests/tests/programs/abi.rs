//! Tests of the netmap interface: requests, errors, and the rules of syncs and polls. The programs
//! are static and do without slipring's library. There is one test per scenario.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::builds::c_program;
use super::pcap::CABLE;
use super::stage::Stage;

/// Shell commands that create a veth pair, and give the host an address and a neighbour at the left
/// end. The kernel drops frames that the host sends before the kernel has noticed that the right
/// end is up. So the commands wait for this.
const ADDRESSED: &str = "
    sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    ip link add left type veth peer name right
    ip link set left up
    ip link set right up
    until ip link show dev left | grep -q 'state UP'; do :; done
    ip addr add 10.9.9.1/24 dev left
    ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev left";

/// Defines one test per scenario of `tests/c/PROGRAM.c`. Each test first runs the shell commands
/// `$shell` in its namespaces.
macro_rules! scenarios {
    ($program:ident after $shell:expr; $($name:ident)*) => {
        mod $program {
            use super::*;

            pub(super) fn program() -> &'static Path {
                static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
                PROGRAM.get_or_init(|| c_program(stringify!($program), &[]))
            }

            $(
                #[test]
                fn $name() {
                    let stage = Stage::new();
                    stage.shell($shell);
                    stage.run(program(), &[stringify!($name)]);
                }
            )*
        }
    };
}

scenarios! {
    requests after ":";
    version_outside_14_and_15_is_einval
    reserved_word_that_is_not_zero_is_einval
    unknown_request_is_einval
    missing_body_is_einval
    body_where_none_belongs_is_einval
    bad_pointer_to_the_header_is_efault
    bad_pointer_to_the_body_is_efault
    bad_pointer_to_an_option_is_efault
    body_and_options_over_a_page_are_emsgsize
    options_in_a_circle_are_emsgsize
    option_given_twice_is_einval_in_both
    option_of_type_zero_is_einval
    unknown_option_is_eopnotsupp_in_its_status
    option_that_a_request_does_not_use_is_eopnotsupp
    failed_request_leaves_its_body
    name_without_an_end_is_cut
    other_ioctls_are_eopnotsupp
    register_tells_what_was_bound
    register_gives_slots_and_rings_that_were_wished
    bound_rings_are_as_netmap_leaves_them
    register_on_a_bound_open_is_ebusy
    exclusive_binds_conflict_either_way
    exclusive_binds_of_different_rings_agree
    register_in_an_unknown_memory_is_einval
    register_in_a_mode_that_is_none_is_einval
    ring_beyond_both_directions_is_einval
    one_direction_shows_no_ring_of_the_other
    pipe_in_another_mode_than_all_or_one_is_einval
    host_rings_of_a_port_without_them_are_einval
    null_port_needs_a_memory
    no_such_port_is_enxio
    extra_buffers_are_a_list_and_may_be_fewer
    extra_buffers_go_back_at_close
    port_with_a_virtio_header_needs_consent
    port_info_is_had_without_binding
    port_info_without_a_name_is_of_a_memory
    port_info_of_nothing_is_enxio
    pools_are_told_of_a_port
    pools_of_nothing_are_enxio
    sync_loop_needs_control_blocks
    old_version_below_14_is_einval
    old_version_of_the_future_passes
    old_request_is_answered_in_its_fields
    old_ring_bits_say_the_mode
    old_pipe_modes_become_names
    old_bind_of_a_bound_open_is_ebusy
    old_command_on_a_bound_open_is_legal
    old_figures_without_a_name_succeed
    old_figures_of_a_port
    old_list_names_ports_of_switches
}

scenarios! {
    switches after CABLE;
    attach_and_detach_tell_the_index
    attached_interface_forwards
    attach_of_what_is_attached_is_ebusy
    attach_of_what_is_in_use_is_ebusy
    attach_without_a_switch_is_einval
    attach_of_nothing_is_einval
    register_of_what_is_attached_is_ebusy
    detach_of_nothing_is_enxio
    detach_of_a_port_that_lives_by_its_openers_is_einval
    list_goes_through_all_ports
    list_of_a_name_tells_where_it_is
    list_of_no_switch_is_einval_and_of_an_unknown_one_enoent
    header_of_a_switch_port_can_be_0_10_or_12
    header_of_another_port_is_einval_and_of_nothing_enxio
    persistent_port_stays_until_it_is_removed
    name_of_a_persistent_port_that_is_no_name_is_einval
    persistent_port_of_a_name_that_is_taken_is_eexist
    removing_nothing_is_enxio_and_something_else_einval
    removing_what_is_in_use_is_ebusy
    polling_goes_on_and_off_once
    polling_of_what_cannot_be_polled
    polling_by_no_or_too_many_processors_is_einval
    interface_moves_frames
    pipe_on_an_interface_is_not_that_interface
}

scenarios! {
    syncs after ":";
    sync_of_an_unbound_open_is_enxio
    poll_of_an_unbound_open_is_pollerr
    impossible_head_makes_the_ring_anew_and_the_sync_succeed
    poll_with_an_impossible_head_is_pollerr
    head_beyond_tail_takes_no_slot_that_is_not_the_programs
    overwritten_tail_is_restored
    impossible_buffers_become_none_when_a_ring_is_made_anew
    slots_come_back_when_the_reader_gives_them_back
    pipe_carries_buffers_lengths_flags_and_pointers
    parts_of_a_frame_arrive_when_its_last_one_is_sent
    indirect_frames_come_from_the_programs_memory
    full_destination_of_a_switch_loses_frames_and_frees_the_sender
    switch_learns_where_an_address_is
    receive_syncs_tell_the_time
    poll_sends_and_receives
    poll_without_consent_does_not_send
    poll_for_room_does_not_receive
    poll_answers_in_the_words_that_were_asked
    poll_waits_for_more_than_cur
    opens_of_one_port_see_the_same_rings
    frames_stay_in_a_pipe_for_an_end_that_opens_again
    shorter_mapping_is_legal
}

scenarios! {
    monitors after CABLE;
    monitor_shows_what_is_sent_in_order
    monitor_shows_what_is_received_in_order
    monitor_of_an_interface_shows_both_directions
    zero_copy_monitor_shares_the_ports_memory
    monitor_is_woken
    monitor_of_what_nobody_has_bound_is_einval
    sending_on_a_monitor_is_eio
    monitor_ends_with_its_port
}

scenarios! {
    hosts after ADDRESSED;
    host_rings_show_what_the_host_sends
    host_rings_take_frames_to_the_host
    all_rings_have_their_places_in_order
    host_ring_that_is_not_there_is_einval
    marked_frames_pass_between_the_interface_and_its_host
}

scenarios! {
    offsets after CABLE;
    rings_show_the_mask_and_slots_the_offset
    rings_without_the_option_have_no_mask
    more_bits_than_a_pointer_has_are_einval
    offset_beyond_the_buffer_is_einval
    offset_that_the_bits_cannot_say_is_einval
    first_offset_beyond_the_largest_is_einval
    busy_port_does_not_grow_its_offsets
    zero_copy_monitor_has_offsets_of_its_own
    interface_moves_frames_from_offset_to_offset
    offset_beyond_what_an_interface_leaves_is_einval
    pipe_carries_the_offset
    switch_moves_frames_from_offset_to_offset
    monitor_shows_a_frame_at_its_own_offset
}

scenarios! {
    externals after ":";
    port_lies_in_the_pages_of_the_program
    anonymous_shared_memory_will_do
    private_memory_is_eopnotsupp
    file_on_a_disk_is_eopnotsupp
    read_only_pages_are_efault
    pages_that_are_not_there_are_efault
    sizes_that_cannot_be_are_einval
    pages_that_hold_no_port_are_enomem
    sizes_are_told
    same_pages_are_the_same_memory
    who_has_not_brought_the_memory_is_eopnotsupp
    option_given_twice_is_einval_in_both
    file_that_is_cut_off_ends_its_port_only
    holes_and_what_else_is_done_to_the_file_harm_nobody
    child_uses_the_memory_of_its_parent
}

scenarios! {
    loops after ":";
    blocks_begin_with_what_the_rings_say
    blocks_come_with_the_bind_as_well
    blocks_of_a_shared_bind_are_einval
    blocks_that_are_not_aligned_are_einval
    blocks_that_are_not_there_are_efault
    enabling_without_the_option_is_einval
    enabling_on_an_unbound_open_is_enxio
    enabling_twice_is_ebusy
    option_given_twice_is_einval_in_both
    option_that_enabling_does_not_use_is_eopnotsupp
    syncs_are_ebusy_and_polls_pollerr
    loop_of_an_unbound_open_is_enxio
    loop_without_blocks_is_einval
    loop_that_sleeps_longer_than_a_second_is_einval
    eventfds_of_another_number_than_rings_are_einval
    descriptors_that_are_no_eventfds_are_refused
    direct_mode_needs_eventfds_and_known_bits
    option_that_a_loop_does_not_use_is_eopnotsupp
    loop_without_eventfds_looks_by_itself
    blocks_in_private_memory_will_do
    loop_sleeps_by_eventfds
    loop_with_some_eventfds_looks_by_itself_and_wakes_who_has_one
    direct_mode_moves_frames_as_well
    loop_serves_a_port_of_a_switch
    full_ring_is_refilled_when_the_reader_makes_room
    impossible_indices_harm_nobody
    second_loop_is_ebusy
    stop_before_the_start_ends_the_next_loop_only
    signal_ends_a_loop_with_eintr
    killed_caller_ends_its_loop
    many_loops_run_beside_each_other
}

/// Allows the kernel to create a few huge pages on demand. This ends on drop.
struct HugePages {
    before: String,
}

impl HugePages {
    const SETTING: &str = "/proc/sys/vm/nr_overcommit_hugepages";

    fn new() -> Option<Self> {
        let before = fs::read_to_string(Self::SETTING).ok()?;
        let pages = before.trim().parse::<u64>().ok()?;
        fs::write(Self::SETTING, (pages + 8).to_string()).ok()?;
        Some(Self { before })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(Self::SETTING, &self.before);
    }
}

#[test]
fn external_memory_of_huge_pages_will_do() {
    let _pages = HugePages::new();
    print!("{}", Stage::new().run(externals::program(), &["huge_pages_will_do"]));
}
