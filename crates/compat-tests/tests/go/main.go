// A netmap client in plain Go: sends COUNT frames to PORT and receives the answers, each of which
// is the frame with its number doubled. It uses only system calls, so it is a static program, in
// which no library can replace them.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	nioCtrl   = 0xc0586997
	nioTxSync = 0x6994
	register  = 1
	allNic    = 1
	pollIn    = 1
)

type header struct {
	version, reqtype uint16
	reserved         uint32
	name             [64]byte
	options          uint64
	body             unsafe.Pointer
}

type registration struct {
	offset, memsize                                           uint64
	txSlots, rxSlots                                          uint32
	txRings, rxRings, hostTxRings, hostRxRings, memID, ringID uint16
	mode, extraBufs, pad                                      uint32
	flags                                                     uint64
}

type slot struct {
	bufIdx     uint32
	len, flags uint16
	ptr        uint64
}

// A ring with netmap's layout; its slots follow.
type ring struct {
	bufOfs            int64
	numSlots, bufSize uint32
	ringID, dir       uint16
	head, cur, tail   uint32
}

const slotsAt = 256

func (r *ring) slot(i uint32) *slot {
	return (*slot)(unsafe.Add(unsafe.Pointer(r), slotsAt+16*uintptr(i)))
}

func (r *ring) buffer(i uint32) []byte {
	at := r.bufOfs + int64(r.slot(i).bufIdx)*int64(r.bufSize)
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), at)), r.bufSize)
}

func (r *ring) empty() bool { return r.head == atomic.LoadUint32(&r.tail) }

func (r *ring) advance() {
	next := (r.head + 1) % r.numSlots
	r.cur = next
	atomic.StoreUint32(&r.head, next)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func open(name string) (fd int, tx, rx *ring) {
	fd, err := syscall.Open("/dev/netmap", syscall.O_RDWR, 0)
	must(err)
	reg := &registration{mode: allNic}
	request := &header{version: 14, reqtype: register, body: unsafe.Pointer(reg)}
	copy(request.name[:], name)
	must(ioctl(fd, nioCtrl, unsafe.Pointer(request)))
	mem, err := syscall.Mmap(fd, 0, int(reg.memsize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(err)
	// The first tx and rx ring; between them are those of the host.
	nif := mem[reg.offset:]
	ringAt := func(n uint32) *ring {
		at := reg.offset + binary.LittleEndian.Uint64(nif[56+8*n:])
		return (*ring)(unsafe.Pointer(&mem[at]))
	}
	hostTx := binary.LittleEndian.Uint32(nif[36:])
	return fd, ringAt(0), ringAt(uint32(reg.txRings) + hostTx)
}

type pollfd struct {
	fd              int32
	events, revents int16
}

func wait(fd int) {
	p := &pollfd{fd: int32(fd), events: pollIn}
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(p)), 1, 10000)
		if errno == syscall.EINTR {
			continue
		}
		if n != 1 || p.revents&pollIn == 0 {
			must(fmt.Errorf("nothing came: %d %v %#x", n, errno, p.revents))
		}
		return
	}
}

func main() {
	fd, tx, rx := open(os.Args[1])
	count, err := strconv.Atoi(os.Args[2])
	must(err)
	for i := 0; i < count; i++ {
		frame := tx.buffer(tx.head)[:60]
		copy(frame, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x0a\x88\xb5")
		binary.BigEndian.PutUint32(frame[14:], uint32(i))
		tx.slot(tx.head).len = 60
		tx.advance()
		must(ioctl(fd, nioTxSync, nil))
		for rx.empty() {
			wait(fd)
		}
		answer := binary.BigEndian.Uint32(rx.buffer(rx.head)[14:])
		if answer != uint32(2*i) || rx.slot(rx.head).len != 60 {
			must(fmt.Errorf("frame %d came back with %d", i, answer))
		}
		rx.advance()
	}
	fmt.Printf("%d answers\n", count)
}
