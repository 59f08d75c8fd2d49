//! Tests with captures that pass networks of several ports and nodes.

use slipring_pcap::PcapFileReader;

use super::{Lab, MS, capture, times};

/// Of the frames that enter at left, short ones go to r2, all others to r1. Frames that enter at r1
/// or r2 go to left.
const TREE: &str = "
    nodes = ['m']
    [ports.left]
    [ports.r1]
    [ports.r2]
    [link.a]
    from = 'left'
    to = 'm'
    delay = '1ms'
    [link.b]
    from = 'm'
    to = 'r1'
    delay = '2ms'
    [link.c]
    from = 'm'
    to = 'r2'
    delay = '3ms'
    [link.d]
    from = 'r1'
    to = 'left'
    delay = '5ms'
    [link.e]
    from = 'r2'
    to = 'left'
    delay = '6ms'
    [[class]]
    match = 'len < 500'
    use = 'link.c'
";

fn tree() -> Lab {
    let lab = Lab::new();
    lab.write("tree.toml", TREE.as_bytes());
    lab
}

#[test]
fn what_leaves_at_several_places_is_in_one_capture_in_order_of_time() {
    let lab = tree();
    let frames = (0..100).map(|i| (i * MS / 2, if i % 2 == 0 { 100 } else { 1000 }));
    lab.write("in.pcap", &capture(frames));
    for name in ["out.pcap", "out.pcapng"] {
        let output = lab.run(&format!("--virtual @in.pcap @{name} --config @tree.toml"));
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
    let out = lab.frames("out.pcap");
    assert_eq!(out.len(), 100);
    assert!(times(&out).is_sorted());
    for frame in out {
        let delay = if frame.len == 100 { 4 * MS } else { 3 * MS };
        assert_eq!(frame.at_ns, frame.id * MS / 2 + delay);
    }
    let bytes = lab.bytes("out.pcapng");
    let mut reader = PcapFileReader::new(&bytes);
    let left: Vec<_> = reader
        .by_ref()
        .map(Result::unwrap)
        .map(|packet| (packet.interface, packet.orig_len))
        .collect();
    let names: Vec<_> = reader.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["r1", "r2"]);
    assert_eq!(left.len(), 100);
    assert!(left.iter().all(|&(at, len)| at == u32::from(len == 100)));
}

#[test]
fn what_meets_at_one_place_is_in_the_capture_of_its_own_input() {
    let lab = tree();
    lab.write("in.pcap", &capture([(0, 1000)]));
    let args = "--virtual @in.pcap @o.pcap @in.pcap @o1.pcap @in.pcap @o2.pcap --config @tree.toml";
    let output = lab.run(args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for (name, ms) in [("o.pcap", 3), ("o1.pcap", 5), ("o2.pcap", 6)] {
        assert_eq!(times(&lab.frames(name)), [ms * MS], "{name}");
    }
}

#[test]
fn a_node_that_nothing_leaves_is_named_with_its_line_by_a_check_too() {
    let lab = tree();
    let dead = "nodes = ['m', 'n']\n[ports.left]\n[link.a]\nfrom = 'left'\nto = 'm'\n\
        [link.b]\nfrom = 'm'\nto = 'n'\n";
    lab.write("dead.toml", dead.as_bytes());
    lab.write("in.pcap", &capture([(0, 1000)]));
    for args in ["--virtual @in.pcap @o.pcap", "--virtual @in.pcap @o.pcap --check"] {
        let output = lab.run(&format!("{args} --config @dead.toml"));
        assert_eq!(output.status, 2, "{args}: {}", output.stderr);
        assert!(output.stderr.contains("no link leads on from `n`"), "{}", output.stderr);
        assert!(output.stderr.contains("line 8, column 7"), "{}", output.stderr);
    }
}

#[test]
fn a_capture_for_a_port_where_no_link_begins_is_refused_by_a_check_too() {
    let lab = tree();
    let one_way = "[ports.left]\n[ports.right]\n[link.up]\nfrom = 'left'\nto = 'right'\n";
    lab.write("link.toml", one_way.as_bytes());
    lab.write("in.pcap", &capture([(0, 1000)]));
    let args = "--virtual @in.pcap @o.pcap @in.pcap @o2.pcap --config @link.toml --check";
    let output = lab.run(args);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("no link begins at `right`"), "{}", output.stderr);
}
