//! Tests of the client with servers that send scripted replies.

use std::thread::{self, JoinHandle};

use super::*;

/// Starts a thread that calls `answer` for each command that needs a reply, and sends the result as
/// the reply, until the client closes the connection or `answer` returns `None`. The thread returns
/// the numbers of all received commands.
fn serve(
    socket: UnixStream,
    mut answer: impl FnMut(&VfioUserMessage) -> Option<(u32, Vec<u8>)> + Send + 'static,
) -> JoinHandle<Vec<u16>> {
    thread::spawn(move || {
        let mut commands = Vec::new();
        while let Ok(Some(message)) = transport::receive(socket.as_fd()) {
            commands.push(message.header.command);
            if message.header.flags & header_flags::NO_REPLY != 0 {
                continue;
            }
            let Some((error, payload)) = answer(&message) else { break };
            let failed = if error != 0 { header_flags::ERROR } else { 0 };
            let header = Header { flags: header_flags::REPLY | failed, error, ..message.header };
            if transport::send(socket.as_fd(), header, &payload, &[]).is_err() {
                break;
            }
        }
        commands
    })
}

/// The answers of a device with one BAR of 256 bytes, whose registers read as 0x11 in each byte.
fn device(message: &VfioUserMessage) -> Option<(u32, Vec<u8>)> {
    let mut reply = Vec::new();
    match Command::from_number(message.header.command)? {
        Command::Version => {
            Version { major: 0, minor: 1 }.write(&mut reply);
            reply.extend(message::capabilities_text());
        }
        Command::DeviceGetInfo => {
            let info = DeviceInfo { argsz: 16, flags: 2, num_regions: 9, num_irqs: 5 };
            info.write(&mut reply);
        }
        Command::DeviceGetIrqInfo => {
            let (asked, _) = IrqInfo::read(&message.payload).unwrap();
            IrqInfo { count: u32::from(asked.index == 2) * 4, ..asked }.write(&mut reply);
        }
        Command::DeviceGetRegionInfo => {
            let (asked, _) = RegionInfo::read(&message.payload).unwrap();
            let size = if asked.index == 1 { 256 } else { 0 };
            RegionInfo { size, flags: 3, ..asked }.write(&mut reply);
        }
        Command::RegionRead => {
            let (asked, _) = RegionAccess::read(&message.payload).unwrap();
            asked.write(&mut reply);
            reply.resize(reply.len() + asked.count as usize, 0x11);
        }
        Command::DmaMap => return Some((libc::ENOSPC as u32, reply)),
        _ => {}
    }
    Some((0, reply))
}

fn connect(
    answer: impl FnMut(&VfioUserMessage) -> Option<(u32, Vec<u8>)> + Send + 'static,
) -> (Result<VfioUserDevice, PciError>, JoinHandle<Vec<u16>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = serve(far, answer);
    (VfioUserDevice::over(near, "test.sock"), server)
}

#[test]
fn registers_interrupts_and_refusals_pass_through() {
    let (device, server) = connect(device);
    let device = device.unwrap();
    assert_eq!([0, 0, 4], device.interrupts);
    assert!(matches!(device.bar(0), Err(PciError::NoBar { bar: 0, .. })));
    let bar = device.bar(1).unwrap();
    assert_eq!((bar.len(), bar.read32(0), bar.read8(255)), (256, 0x1111_1111, 0x11));
    bar.write32(8, 5);
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    device.set_interrupts(InterruptKind::MsiX, &[event.as_fd()]).unwrap();
    assert_eq!(device.reset().unwrap(), ResetResult::Unsupported);
    let refused = device.dma().alloc(4096).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(bar.read16(0), 0x1111, "an error of the server does not end the connection");
    drop((device, bar));
    let commands = server.join().unwrap();
    assert!(commands.contains(&(Command::RegionWrite as u16)));
}

#[test]
fn memory_without_a_file_is_not_offered_to_a_server() {
    let (device, _server) = connect(device);
    let range = MemoryRange { start: 4096, len: 4096, file: None };
    let refused = device.unwrap().dma().map(&range).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn after_the_server_s_end_registers_read_as_all_ones() {
    let (opened, server) = connect(|message| {
        if message.header.command == Command::RegionRead as u16 { None } else { device(message) }
    });
    let bar = opened.unwrap().bar(1).unwrap();
    assert_eq!((bar.read32(0), bar.read16(4), bar.read8(9)), (u32::MAX, u16::MAX, u8::MAX));
    bar.write32(0, 1);
    server.join().unwrap();
}

#[test]
fn a_server_of_another_version_or_of_no_pci_device_is_refused_by_name() {
    for (command, reply, reason) in [
        (Command::Version, vec![7, 0, 0, 0], "it speaks version 7"),
        (Command::Version, vec![0], "too short"),
        (Command::DeviceGetInfo, vec![0; 16], "no PCI device"),
        (Command::DeviceGetInfo, vec![0; 3], "too short"),
        (Command::DeviceGetIrqInfo, vec![], "too short"),
    ] {
        let (opened, _server) = connect(move |message| {
            let replaced = message.header.command == command as u16;
            if replaced { Some((0, reply.clone())) } else { device(message) }
        });
        let error = opened.err().unwrap();
        assert!(matches!(error, PciError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_reply_with_too_few_bytes_or_to_another_command_reads_as_all_ones() {
    for bytes in [0, 4, 17] {
        let (opened, _server) = connect(move |message| {
            let is_read = message.header.command == Command::RegionRead as u16;
            if is_read { Some((0, vec![0; bytes])) } else { device(message) }
        });
        assert_eq!(opened.unwrap().bar(1).unwrap().read32(0), u32::MAX, "{bytes}");
    }
}

#[test]
fn an_area_that_could_shrink_or_leaves_its_region_is_not_mapped() {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create("area", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 8192).unwrap();
    let area = MmapArea { offset: 4096, size: 4096 };
    assert!(map_area(&file, 4096, &area, 8192).is_none(), "the file may still shrink");
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(map_area(&file, 4096, &area, 8192).is_some());
    assert!(map_area(&file, 4096, &area, 4096).is_none(), "beyond the region");
    assert!(map_area(&file, 8192, &area, 8192).is_none(), "beyond the file");
    assert!(map_area(&file, 100, &area, 8192).is_none(), "not at a page");
    let wide = MmapArea { offset: u64::MAX, size: 2 };
    assert!(map_area(&file, 0, &wide, u64::MAX).is_none(), "the sum would wrap");
}
