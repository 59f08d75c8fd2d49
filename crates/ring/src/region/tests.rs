use rustix::fs::MemfdFlags;

use super::*;

fn small() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

#[test]
fn buffers_zero_and_one_are_never_handed_out() {
    let region = small();
    let all = region.alloc_bufs(62).unwrap();
    assert!(all.iter().all(|buf| buf.0 >= 2));
    let refused = region.alloc_bufs(1).unwrap_err();
    assert_eq!(refused.to_string(), "the region has 0 free buffers of 64, 1 are needed");
}

#[test]
fn a_freed_buffer_is_the_next_one_taken() {
    let region = small();
    let bufs = region.alloc_bufs(10).unwrap();
    region.release_bufs([bufs[4]]);
    assert_eq!(region.alloc_bufs(1).unwrap(), vec![bufs[4]]);
}

#[test]
fn freeing_nonsense_changes_nothing() {
    let region = small();
    let bufs = region.alloc_bufs(3).unwrap();
    region.release_bufs([BufIdx(0), BufIdx(1), BufIdx(64), BufIdx(u32::MAX), bufs[0], bufs[0]]);
    assert_eq!(region.free_bufs(), 60);
}

#[test]
fn an_attached_process_sees_the_same_bytes() {
    let region = small();
    let other = Region::attach(region.fd().try_clone_to_owned().unwrap()).unwrap();
    region.copy_in(BufIdx(63), &[7; 2048]).unwrap();
    let mut seen = [0; 2048];
    assert_eq!(other.copy_out(BufIdx(63), &mut seen), Some(2048));
    assert_eq!(seen, [7; 2048]);
    assert_eq!(other.copy_out(BufIdx(64), &mut seen), None);
}

fn sparse(bytes: u64) -> Arc<OwnedFd> {
    let fd = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    Arc::new(fd)
}

#[test]
fn two_regions_of_one_file_keep_apart_and_give_their_pages_back() {
    let file = sparse(64 << 20);
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
    let size = Region::size_of(geometry).unwrap();
    let first = Region::within(&file, 0, geometry, Box::new(())).unwrap();
    let second = Region::within(&file, size, geometry, Box::new(())).unwrap();
    first.copy_in(BufIdx(63), &[1; 2048]).unwrap();
    second.copy_in(BufIdx(0), &[2; 2048]).unwrap();
    let mut seen = [0; 2048];
    first.copy_out(BufIdx(63), &mut seen).unwrap();
    assert_eq!(seen, [1; 2048]);
    let used = || rustix::fs::fstat(&file).unwrap().st_blocks;
    let before = used();
    drop(first);
    assert!(used() < before);
    second.copy_out(BufIdx(0), &mut seen).unwrap();
    assert_eq!(seen, [2; 2048]);
}

#[test]
fn a_region_beyond_the_end_of_its_file_is_refused() {
    let file = sparse(1 << 20);
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
    assert!(Region::within(&file, 0, geometry, Box::new(())).is_ok());
    for at in [1 << 20, (1 << 20) - 4096, 5, u64::MAX] {
        assert!(Region::within(&file, at, geometry, Box::new(())).is_err(), "{at}");
    }
}

#[test]
fn a_file_that_is_no_region_is_refused() {
    let fd = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, 8192).unwrap();
    let unsealed = Region::attach(fd.try_clone().unwrap()).unwrap_err();
    assert_eq!(unsealed.to_string(), "not a slipring region: the file may still shrink");
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    let foreign = Region::attach(fd).unwrap_err();
    assert_eq!(foreign.to_string(), "not a slipring region: its first bytes are not ours");
}

#[test]
fn a_buffer_that_was_never_taken_cannot_be_given_back() {
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    region.release_bufs((0..80).map(BufIdx));
    assert_eq!(region.free_bufs(), 62);
    let taken = region.alloc_bufs(10).unwrap();
    region.release_bufs((0..80).chain([5, 5]).map(BufIdx));
    assert_eq!((taken.len(), region.free_bufs()), (10, 62));
    let mut all: Vec<u32> = region.alloc_bufs(62).unwrap().into_iter().map(|buf| buf.0).collect();
    all.sort_unstable();
    assert_eq!(all, (2..64).collect::<Vec<_>>(), "each one once");
}

#[test]
fn a_region_tells_where_its_parts_are() {
    let geometry = Geometry { ring_bytes: 10_000, bufs: 64, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    // One page for the header, rings in whole pages, buffers, and a page into which the data of the
    // last buffer reaches.
    assert_eq!((region.ring_start(), region.buf_start()), (4096, 4096 + 12_288));
    assert_eq!(region.data_start(), region.buf_start() + 256);
    assert_eq!((region.buf_area_len(), region.size()), (64 * 2048, 16_384 + 64 * 2048 + 4096));
    assert_eq!(region.geometry(), Geometry { ring_bytes: 12_288, ..geometry });
    assert!(!region.is_huge() && region.file_offset() == 0);
    let file = sparse(8 << 20);
    let within = Region::within(&file, region.size(), geometry, Box::new(())).unwrap();
    assert_eq!(within.file_offset(), region.size());
}

#[test]
fn only_whole_ranges_of_the_ring_area_count_as_inside() {
    let region = small();
    let (start, end) = (region.ring_start(), region.buf_start());
    assert!(region.in_ring_area(start, 256) && region.in_ring_area(end - 128, 128));
    for (at, len) in [(0, 256), (start - 128, 128), (start + 64, 64), (end - 128, 129), (end, 1)] {
        assert!(!region.in_ring_area(at, len), "{at} {len}");
    }
    assert!(!region.in_ring_area(u64::MAX - 127, 128));
}

#[test]
fn a_resumed_region_hands_out_exactly_what_was_free() {
    let file = sparse(1 << 20);
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 200, buf_size: 2048 };
    let region = Region::within(&file, 0, geometry, Box::new(())).unwrap();
    let taken = region.alloc_bufs(150).unwrap();
    region.release_bufs([3, 63, 64, 65, 127, 128, 140].map(BufIdx));
    region.release_bufs([taken[0]]);
    let again = region.alloc_bufs(1).unwrap()[0];
    let left = region.free_buf_state();
    let resumed = Region::resume(&file, 0, geometry, &left, Box::new(())).unwrap();
    assert_eq!(resumed.free_bufs(), region.free_bufs());
    let mut free = resumed.alloc_bufs(resumed.free_bufs()).unwrap();
    free.sort_unstable();
    let released = [3, 63, 64, 65, 127, 128, 140];
    let expected = released.into_iter().chain(152..200).map(BufIdx);
    assert_eq!((again, free), (taken[0], expected.collect::<Vec<_>>()));
    for (fresh, released) in [(1, vec![]), (201, vec![]), (10, vec![1 << 10]), (10, vec![2])] {
        let left = FreeBufs { fresh, released };
        assert!(Region::resume(&file, 0, geometry, &left, Box::new(())).is_err(), "{left:?}");
    }
}

#[test]
fn bytes_are_copied_to_and_from_any_place_of_a_buffer_and_nothing_around_them() {
    let region = small();
    let numbered: Vec<u8> = (0..2048).map(|i| (i * 7 % 251) as u8).collect();
    let mut model = vec![0; 2048];
    for (at, len) in
        [(0, 3), (1, 8), (7, 20), (100, 1), (2040, 20), (2047, 1), (2048, 4), (9000, 1)]
    {
        let fits = len.min(2048usize.saturating_sub(at));
        assert_eq!(region.copy_in_at(BufIdx(5), at, &numbered[..len]), Some(fits));
        if fits > 0 {
            model[at..at + fits].copy_from_slice(&numbered[..fits]);
        }
        let mut seen = vec![0xee; len];
        assert_eq!(region.copy_out_at(BufIdx(5), at, &mut seen), Some(fits));
        assert_eq!(seen[..fits], numbered[..fits]);
        let mut all = [0; 2048];
        region.copy_out(BufIdx(5), &mut all).unwrap();
        assert_eq!(all[..], model);
    }
    for len in [0, 1, 7, 8, 9, 31, 2047, 2048, 3000] {
        let bytes = vec![0x5a; len];
        assert_eq!(region.copy_in(BufIdx(6), &bytes), Some(len.min(2048)));
        region.copy_in(BufIdx(6), &numbered[..len.min(2048)]);
        let mut seen = vec![0; len];
        assert_eq!(region.copy_out(BufIdx(6), &mut seen), Some(len.min(2048)));
        assert_eq!(seen[..len.min(2048)], numbered[..len.min(2048)]);
    }
    assert_eq!(region.copy_in_at(BufIdx(64), 0, &[1]), None);
}
