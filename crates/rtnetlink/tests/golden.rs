use slipring_rtnetlink::Messages;
#[test]
fn show() {
    for line in include_str!("captured.txt").lines().filter(|l| !l.starts_with('#')) {
        let (name, hex) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        for m in Messages::new(&bytes) {
            let m = m.unwrap();
            print!("{name} {:?} {:?}", m.header.flags, m.body);
            if let slipring_rtnetlink::MessageBody::Route(_, r) = m.body { print!(" {:?}", r.hops().collect::<Vec<_>>()); }
            if let slipring_rtnetlink::MessageBody::NextHop(_, r) = m.body { print!(" {:?}", r.group.map(|g| g.collect::<Vec<_>>())); }
            println!();
        }
    }
}
