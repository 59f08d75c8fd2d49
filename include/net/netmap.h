/*
 * netmap's structures and numbers, as C programs see them. SPDX-License-Identifier: BSD-2-Clause
 *
 * Names, layouts and values are netmap's (API 14), so that programs written for it compile and
 * run; the text is slipring's own. Their meaning:
 *
 *   A program binds an open file to the rings of a port (NIOCCTRL with NETMAP_REQ_REGISTER) and
 *   maps the file. In the mapping, struct netmap_if says where each ring is; each slot of a ring
 *   names a buffer by index:
 *
 *     mapping + nr_offset -> netmap_if | ring_ofs[i] -> netmap_ring | slot[k].buf_idx
 *     buffer of a slot     = (char *)ring + ring->buf_ofs + buf_idx * ring->nr_buf_size
 *
 *   Of a ring, the program owns the slots from head up to, but not including, tail. It gives
 *   slots back by moving head, and says by cur beyond which slot it wants to be woken. Only the
 *   other side moves tail, in the program's own ioctl (NIOCTXSYNC, NIOCRXSYNC) or poll.
 */
#ifndef _NET_NETMAP_H_
#define _NET_NETMAP_H_

#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/types.h>

#ifndef IFNAMSIZ
#define IFNAMSIZ 16
#endif

#define NETMAP_API 14
#define NETMAP_MIN_API 14
#define NETMAP_MAX_API 15
#define NETMAP_DEVICE_NAME "/dev/netmap"

#define NETMAP_REQ_IFNAMSIZ 64
#define NETMAP_REQ_MAXSIZE 4096
#define NM_CACHE_ALIGN 128
#define NM_BDG_IFNAMSIZ IFNAMSIZ
#define NETMAP_MAX_FRAGS 64

/* ---- structures in the mapping ---- */

/* A slot of a ring. */
struct netmap_slot {
	uint32_t buf_idx; /* the buffer, by number */
	uint16_t len;     /* bytes of the frame, or of this part of the frame */
	uint16_t flags;   /* NS_... */
	uint64_t ptr;     /* with NS_INDIRECT the payload's address, else the payload's offset */
};

#define NS_BUF_CHANGED 0x0001 /* buf_idx was changed; must be set after every exchange */
#define NS_REPORT 0x0002      /* report soon that this slot is complete */
#define NS_FORWARD 0x0004     /* pass the frame on between NIC and host */
#define NS_NO_LEARN 0x0008    /* a switch must not learn the sender's address */
#define NS_INDIRECT 0x0010    /* the payload is at address ptr, in the program's memory */
#define NS_MOREFRAG 0x0020    /* the frame continues in the next slot */
#define NS_TXMON 0x0040       /* on a monitor: sent, not received */
#define NS_PORT_SHIFT 8
#define NS_PORT_MASK (0xff << NS_PORT_SHIFT)
#define NS_RFRAGS(slot) (((slot)->flags >> 8) & 0xff)

struct netmap_ring {
	const int64_t buf_ofs;      /* from this structure to buffer 0, in bytes */
	const uint32_t num_slots;
	const uint32_t nr_buf_size; /* bytes of a buffer */
	const uint16_t ringid;
	const uint16_t dir;         /* 0 tx, 1 rx */
	uint32_t head;              /* set by the program: first slot that the program owns */
	uint32_t cur;               /* set by the program: wake it when slots beyond this one are available */
	uint32_t tail;              /* set by the other side: first slot that the program does not own */
	uint32_t flags;             /* NR_TIMESTAMP, NR_FORWARD */
	struct timeval ts;          /* time of the last rx sync */
	const uint64_t offset_mask; /* the bits of slot.ptr that hold an offset */
	const uint64_t buf_align;   /* alignment that offsets must have; 0: none */
	const uint32_t unused[12];
	const uint32_t lost;        /* not in netmap: frames for which a monitor had no room, mod 2^32 */
	uint8_t __attribute__((__aligned__(NM_CACHE_ALIGN))) sem[128]; /* for the program only */
	struct netmap_slot slot[0];
};

#define NR_TIMESTAMP 0x0002
#define NR_FORWARD 0x0004

/* Whether the program owns no slot of the ring. */
static inline int
nm_ring_empty(struct netmap_ring *ring)
{
	return ring->head == ring->tail;
}

struct netmap_if {
	char ni_name[IFNAMSIZ];
	const uint32_t ni_version;
	const uint32_t ni_flags;         /* NI_PRIV_MEM */
	const uint32_t ni_tx_rings;
	const uint32_t ni_rx_rings;
	uint32_t ni_bufs_head;           /* extra buffers; each begins with the number of the next */
	const uint32_t ni_host_tx_rings;
	const uint32_t ni_host_rx_rings;
	uint32_t ni_spare1[3];
	/* From this structure to each ring: tx, host tx, rx, host rx. 0: the ring is not bound. */
	const ssize_t ring_ofs[0];
};

#define NI_PRIV_MEM 0x1

/* ---- requests ---- */

struct nmreq_header {
	uint16_t nr_version;  /* NETMAP_API */
	uint16_t nr_reqtype;  /* NETMAP_REQ_... */
	uint32_t nr_reserved; /* 0 */
	char nr_name[NETMAP_REQ_IFNAMSIZ];
	uint64_t nr_options;  /* address of the first struct nmreq_option, or 0 */
	uint64_t nr_body;     /* address of the body, or 0 */
};

enum {
	NETMAP_REQ_REGISTER = 1,
	NETMAP_REQ_PORT_INFO_GET,
	NETMAP_REQ_VALE_ATTACH,
	NETMAP_REQ_VALE_DETACH,
	NETMAP_REQ_VALE_LIST,
	NETMAP_REQ_PORT_HDR_SET,
	NETMAP_REQ_PORT_HDR_GET,
	NETMAP_REQ_VALE_NEWIF,
	NETMAP_REQ_VALE_DELIF,
	NETMAP_REQ_VALE_POLLING_ENABLE,
	NETMAP_REQ_VALE_POLLING_DISABLE,
	NETMAP_REQ_POOLS_INFO_GET,
	NETMAP_REQ_SYNC_KLOOP_START,
	NETMAP_REQ_SYNC_KLOOP_STOP,
	NETMAP_REQ_CSB_ENABLE,
};

struct nmreq_option {
	uint64_t nro_next;
	uint32_t nro_reqtype; /* NETMAP_REQ_OPT_... */
	uint32_t nro_status;  /* written back: 0 or an errno */
	uint64_t nro_size;    /* whole size, if the type does not determine it */
};

enum {
	NETMAP_REQ_OPT_EXTMEM = 1,
	NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS,
	NETMAP_REQ_OPT_CSB,
	NETMAP_REQ_OPT_SYNC_KLOOP_MODE,
	NETMAP_REQ_OPT_OFFSETS,
	NETMAP_REQ_OPT_MAX,
};

struct nmreq_register {
	uint64_t nr_offset;   /* offset of struct netmap_if in the mapping */
	uint64_t nr_memsize;  /* bytes to map */
	uint32_t nr_tx_slots;
	uint32_t nr_rx_slots;
	uint16_t nr_tx_rings;
	uint16_t nr_rx_rings;
	uint16_t nr_host_tx_rings;
	uint16_t nr_host_rx_rings;
	uint16_t nr_mem_id;
	uint16_t nr_ringid;
	uint32_t nr_mode;     /* NR_REG_... */
	uint32_t nr_extra_bufs;
	uint32_t pad1;
	uint64_t nr_flags;    /* NR_... below */
};

enum {
	NR_REG_DEFAULT = 0, /* old requests only */
	NR_REG_ALL_NIC = 1,
	NR_REG_SW = 2,
	NR_REG_NIC_SW = 3,
	NR_REG_ONE_NIC = 4,
	NR_REG_PIPE_MASTER = 5, /* old requests only */
	NR_REG_PIPE_SLAVE = 6,  /* old requests only */
	NR_REG_NULL = 7,
	NR_REG_ONE_SW = 8,
};

#define NR_REG_MASK 0xf
#define NR_MONITOR_TX 0x100
#define NR_MONITOR_RX 0x200
#define NR_ZCOPY_MON 0x400
#define NR_EXCLUSIVE 0x800
#define NR_RX_RINGS_ONLY 0x2000
#define NR_TX_RINGS_ONLY 0x4000
#define NR_ACCEPT_VNET_HDR 0x8000
#define NR_DO_RX_POLL 0x10000
#define NR_NO_TX_POLL 0x20000

struct nmreq_port_info_get {
	uint64_t nr_memsize;
	uint32_t nr_tx_slots;
	uint32_t nr_rx_slots;
	uint16_t nr_tx_rings;
	uint16_t nr_rx_rings;
	uint16_t nr_host_tx_rings;
	uint16_t nr_host_rx_rings;
	uint16_t nr_mem_id;
	uint16_t pad[3];
};

#define NM_BDG_NAME "vale"

struct nmreq_vale_attach {
	struct nmreq_register reg;
	uint32_t port_index;
	uint32_t pad1;
};

struct nmreq_vale_detach {
	uint32_t port_index;
	uint32_t pad1;
};

struct nmreq_vale_list {
	uint16_t nr_bridge_idx;
	uint16_t pad1;
	uint32_t nr_port_idx;
};

struct nmreq_port_hdr {
	uint32_t nr_hdr_len; /* 0, 10 or 12 */
	uint32_t pad1;
};

struct nmreq_vale_newif {
	uint32_t nr_tx_slots;
	uint32_t nr_rx_slots;
	uint16_t nr_tx_rings;
	uint16_t nr_rx_rings;
	uint16_t nr_mem_id;
	uint16_t pad1;
};

struct nmreq_vale_polling {
	uint32_t nr_mode;
	uint32_t nr_first_cpu_id;
	uint32_t nr_num_polling_cpus;
	uint32_t pad1;
};

#define NETMAP_POLLING_MODE_SINGLE_CPU 1
#define NETMAP_POLLING_MODE_MULTI_CPU 2

struct nmreq_pools_info {
	uint64_t nr_memsize;
	uint16_t nr_mem_id;
	uint16_t pad1[3];
	uint64_t nr_if_pool_offset;
	uint32_t nr_if_pool_objtotal;
	uint32_t nr_if_pool_objsize;
	uint64_t nr_ring_pool_offset;
	uint32_t nr_ring_pool_objtotal;
	uint32_t nr_ring_pool_objsize;
	uint64_t nr_buf_pool_offset;
	uint32_t nr_buf_pool_objtotal;
	uint32_t nr_buf_pool_objsize;
};

struct nmreq_sync_kloop_start {
	uint32_t sleep_us;
	uint32_t pad1;
};

struct nm_csb_atok {
	uint32_t head;
	uint32_t cur;
	uint32_t appl_need_kick;
	uint32_t sync_flags;
	uint32_t pad[12];
};

struct nm_csb_ktoa {
	uint32_t hwcur;
	uint32_t hwtail;
	uint32_t kern_need_kick;
	uint32_t pad[13];
};

/*
 * Barriers for programs that read and write control blocks themselves: stores stay before later
 * stores, loads before later loads, stores before later loads.
 */
static inline void
nm_stst_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void
nm_ldld_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void
nm_stld_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * The program's half of control blocks: passes indices to the sync loop, and gets indices from it.
 * Each side reads the two words in the opposite order in which the other side writes them, so that
 * it never sees the later word without the earlier one.
 */
static inline void
nm_sync_kloop_appl_write(struct nm_csb_atok *atok, uint32_t cur, uint32_t head)
{
	/* Writes to slots must be visible before the new head. */
	__atomic_store_n(&atok->cur, cur, __ATOMIC_RELEASE);
	__atomic_store_n(&atok->head, head, __ATOMIC_RELEASE);
}

static inline void
nm_sync_kloop_appl_read(struct nm_csb_ktoa *ktoa, uint32_t *hwtail, uint32_t *hwcur)
{
	*hwtail = __atomic_load_n(&ktoa->hwtail, __ATOMIC_ACQUIRE);
	*hwcur = __atomic_load_n(&ktoa->hwcur, __ATOMIC_ACQUIRE);
}

struct nmreq_opt_extmem {
	struct nmreq_option nro_opt;
	uint64_t nro_usrptr;
	struct nmreq_pools_info nro_info;
};

struct nmreq_opt_sync_kloop_eventfds {
	struct nmreq_option nro_opt;
	struct {
		int32_t ioeventfd;
		int32_t irqfd;
	} eventfds[0];
};

struct nmreq_opt_sync_kloop_mode {
	struct nmreq_option nro_opt;
#define NM_OPT_SYNC_KLOOP_DIRECT_TX 0x0001
#define NM_OPT_SYNC_KLOOP_DIRECT_RX 0x0002
	uint32_t mode;
	uint32_t pad1;
};

struct nmreq_opt_csb {
	struct nmreq_option nro_opt;
	uint64_t csb_atok;
	uint64_t csb_ktoa;
};

struct nmreq_opt_offsets {
	struct nmreq_option nro_opt;
	uint64_t nro_max_offset;
	uint64_t nro_initial_offset;
	uint32_t nro_offset_bits;
	uint32_t nro_tx_align;
	uint64_t nro_min_gap;
};

/* ---- requests from before NIOCCTRL ---- */

struct nmreq {
	char nr_name[IFNAMSIZ];
	uint32_t nr_version;
	uint32_t nr_offset;
	uint32_t nr_memsize;
	uint32_t nr_tx_slots;
	uint32_t nr_rx_slots;
	uint16_t nr_tx_rings;
	uint16_t nr_rx_rings;
	uint16_t nr_ringid;
#define NETMAP_HW_RING 0x4000
#define NETMAP_SW_RING 0x2000
#define NETMAP_RING_MASK 0x0fff
#define NETMAP_NO_TX_POLL 0x1000
#define NETMAP_DO_RX_POLL 0x8000
	uint16_t nr_cmd;
#define NETMAP_BDG_ATTACH 1
#define NETMAP_BDG_DETACH 2
#define NETMAP_BDG_REGOPS 3
#define NETMAP_BDG_LIST 4
#define NETMAP_BDG_VNET_HDR 5
#define NETMAP_BDG_NEWIF 6
#define NETMAP_BDG_DELIF 7
#define NETMAP_PT_HOST_CREATE 8
#define NETMAP_PT_HOST_DELETE 9
#define NETMAP_BDG_POLLING_ON 10
#define NETMAP_BDG_POLLING_OFF 11
#define NETMAP_VNET_HDR_GET 12
	uint16_t nr_arg1;
#define NETMAP_BDG_HOST 1
	uint16_t nr_arg2; /* number of the memory */
	uint32_t nr_arg3; /* extra buffers */
	uint32_t nr_flags;
	uint32_t spare2[1];
};

#define NM_IFRDATA_LEN 256
struct nm_ifreq {
	char nifr_name[IFNAMSIZ];
	char data[NM_IFRDATA_LEN];
};

#define NIOCGINFO _IOWR('i', 145, struct nmreq)
#define NIOCREGIF _IOWR('i', 146, struct nmreq)
#define NIOCTXSYNC _IO('i', 148)
#define NIOCRXSYNC _IO('i', 149)
#define NIOCCONFIG _IOWR('i', 150, struct nm_ifreq)
#define NIOCCTRL _IOWR('i', 151, struct nmreq_header)

#endif /* _NET_NETMAP_H_ */
