//! Tests of the drivers against QEMU's models, without a guest (`make qemu` fetches QEMU).
#![allow(clippy::unwrap_used)]

mod behaviour;
mod card;
mod left_running;
mod watched;

/// Runs the same tests for each of the listed drivers.
macro_rules! every_driver {
    ($($module:ident $device:literal $driver:literal;)*) => {
        $(mod $module {
            use crate::behaviour::{self, Model};

            const MODEL: Model = Model { device: $device, driver: $driver };

            #[test]
            fn frames_leave_whole_and_in_order_and_are_counted() {
                behaviour::frames_leave_whole_and_in_order_and_are_counted(MODEL);
            }

            #[test]
            fn frames_arrive_whole_and_in_order_while_the_program_sleeps() {
                behaviour::frames_arrive_whole_and_in_order_while_the_program_sleeps(MODEL);
            }

            #[test]
            fn frames_for_other_hosts_arrive_only_if_asked_for() {
                behaviour::frames_for_other_hosts_arrive_only_if_asked_for(MODEL);
            }

            #[test]
            fn a_pulled_cable_is_reported_and_frames_flow_when_it_is_back() {
                behaviour::a_pulled_cable_is_reported_and_frames_flow_when_it_is_back(MODEL);
            }

            #[test]
            fn a_port_that_ends_with_its_link_outlives_the_negotiation_and_ends_at_a_pulled_cable() {
                behaviour::a_port_that_ends_with_its_link_outlives_the_negotiation_and_ends_at_a_pulled_cable(MODEL);
            }

            #[test]
            fn a_frame_in_several_slots_leaves_as_one() {
                behaviour::a_frame_in_several_slots_leaves_as_one(MODEL);
            }

            #[test]
            fn a_card_in_use_is_set_to_100_mbit_without_negotiation_or_refuses_by_name() {
                behaviour::a_card_in_use_is_set_to_100_mbit_without_negotiation_or_refuses_by_name(
                    MODEL,
                );
            }

            #[test]
            fn a_card_in_use_receives_for_other_hosts_when_it_is_told_to() {
                behaviour::a_card_in_use_receives_for_other_hosts_when_it_is_told_to(MODEL);
            }

            #[test]
            fn a_long_frame_in_full_slots_leaves_as_one() {
                behaviour::a_long_frame_in_full_slots_leaves_as_one(MODEL);
            }

            #[test]
            fn tags_of_vlans_stay_in_the_frames() {
                behaviour::tags_of_vlans_stay_in_the_frames(MODEL);
            }

            #[test]
            fn a_long_frame_arrives_in_several_slots() {
                behaviour::a_long_frame_arrives_in_several_slots(MODEL);
            }

            #[test]
            fn a_batch_costs_at_most_one_register_write() {
                behaviour::a_batch_costs_at_most_one_register_write(MODEL);
            }

            #[test]
            fn a_pulled_cable_is_noticed_by_a_program_that_only_sends() {
                behaviour::a_pulled_cable_is_noticed_by_a_program_that_only_sends(MODEL);
            }

            #[test]
            fn a_card_that_something_else_has_reset_ends_the_port_by_name() {
                behaviour::a_card_that_something_else_has_reset_ends_the_port_by_name(MODEL);
            }

            #[test]
            fn a_card_that_is_gone_ends_the_port_by_name() {
                behaviour::a_card_that_is_gone_ends_the_port_by_name(MODEL);
            }

            #[test]
            fn a_closed_port_gives_all_buffers_back_and_the_card_opens_again() {
                behaviour::a_closed_port_gives_all_buffers_back_and_the_card_opens_again(MODEL);
            }
        })*
    };
}

every_driver! {
    e1000 "e1000-82545em" "e1000";
    e1000e "e1000e" "e1000e";
    igb "igb" "igb";
    virtio "virtio-net-pci,disable-legacy=on,iommu_platform=on" "virtio";
}
