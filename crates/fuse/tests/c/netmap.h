/* The structures and numbers of netmap that the clients here use. */
#pragma once
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/time.h>

struct slot {
    uint32_t buf_idx;
    uint16_t len, flags;
    uint64_t ptr;
};

struct ring {
    int64_t buf_ofs;
    uint32_t num_slots, nr_buf_size;
    uint16_t ringid, dir;
    volatile uint32_t head, cur, tail;
    uint32_t flags, pad;
    struct timeval ts;
    uint64_t offset_mask, buf_align, pad2[7];
    uint8_t sem[128];
    struct slot slot[];
};

struct nif {
    char name[16];
    uint32_t version, flags, tx_rings, rx_rings, bufs_head, host_tx_rings, host_rx_rings, spare[3];
    int64_t ring_ofs[];
};

struct header {
    uint16_t version, reqtype;
    uint32_t reserved;
    char name[64];
    uint64_t options, body;
};

struct reg {
    uint64_t offset, memsize;
    uint32_t tx_slots, rx_slots;
    uint16_t tx_rings, rx_rings, host_tx_rings, host_rx_rings, mem_id, ringid;
    uint32_t mode, extra_bufs, pad;
    uint64_t flags;
};

struct oldreq {
    char name[16];
    uint32_t version, offset, memsize, tx_slots, rx_slots;
    uint16_t tx_rings, rx_rings, ringid, cmd, arg1, arg2;
    uint32_t arg3, flags, spare;
};

#define NIOCCTRL 0xc0586997u
#define NIOCREGIF 0xc03c6992u
#define NIOCGINFO 0xc03c6991u
#define NIOCTXSYNC 0x6994u
#define NIOCRXSYNC 0x6995u
