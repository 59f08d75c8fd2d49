/*
 * Asserts that the header's layouts and numbers are those that were measured with netmap's header.
 * If one differs, the file does not compile.
 */
#include <net/netmap.h>
#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#define AT(type, field, byte) _Static_assert(offsetof(struct type, field) == (byte), #type "." #field)

SIZE(netmap_slot, 16);
AT(netmap_slot, len, 4);
AT(netmap_slot, flags, 6);
AT(netmap_slot, ptr, 8);
SIZE(netmap_ring, 256);
_Static_assert(_Alignof(struct netmap_ring) == 128, "alignment");
AT(netmap_ring, num_slots, 8);
AT(netmap_ring, nr_buf_size, 12);
AT(netmap_ring, ringid, 16);
AT(netmap_ring, dir, 18);
AT(netmap_ring, head, 20);
AT(netmap_ring, cur, 24);
AT(netmap_ring, tail, 28);
AT(netmap_ring, flags, 32);
AT(netmap_ring, ts, 40);
AT(netmap_ring, offset_mask, 56);
AT(netmap_ring, buf_align, 64);
AT(netmap_ring, sem, 128);
AT(netmap_ring, slot, 256);
SIZE(netmap_if, 56);
AT(netmap_if, ni_version, 16);
AT(netmap_if, ni_tx_rings, 24);
AT(netmap_if, ni_bufs_head, 32);
AT(netmap_if, ni_host_tx_rings, 36);
AT(netmap_if, ring_ofs, 56);
SIZE(nmreq, 60);
AT(nmreq, nr_version, 16);
AT(nmreq, nr_tx_rings, 36);
AT(nmreq, nr_ringid, 40);
AT(nmreq, nr_arg3, 48);
AT(nmreq, nr_flags, 52);
SIZE(nm_ifreq, 272);
SIZE(nmreq_header, 88);
AT(nmreq_header, nr_name, 8);
AT(nmreq_header, nr_options, 72);
AT(nmreq_header, nr_body, 80);
SIZE(nmreq_option, 24);
SIZE(nmreq_register, 56);
AT(nmreq_register, nr_tx_slots, 16);
AT(nmreq_register, nr_mem_id, 32);
AT(nmreq_register, nr_ringid, 34);
AT(nmreq_register, nr_mode, 36);
AT(nmreq_register, nr_extra_bufs, 40);
AT(nmreq_register, nr_flags, 48);
SIZE(nmreq_port_info_get, 32);
SIZE(nmreq_vale_attach, 64);
SIZE(nmreq_vale_detach, 8);
SIZE(nmreq_vale_list, 8);
SIZE(nmreq_port_hdr, 8);
SIZE(nmreq_vale_newif, 16);
SIZE(nmreq_vale_polling, 16);
SIZE(nmreq_pools_info, 64);
AT(nmreq_pools_info, nr_buf_pool_offset, 48);
SIZE(nmreq_sync_kloop_start, 8);
SIZE(nm_csb_atok, 64);
SIZE(nm_csb_ktoa, 64);
SIZE(nmreq_opt_extmem, 96);
SIZE(nmreq_opt_csb, 40);
SIZE(nmreq_opt_offsets, 56);
SIZE(nmreq_opt_sync_kloop_mode, 32);
SIZE(nmreq_opt_sync_kloop_eventfds, 24);
_Static_assert(NIOCGINFO == 0xc03c6991 && NIOCREGIF == 0xc03c6992, "old ioctls");
_Static_assert(NIOCTXSYNC == 0x6994 && NIOCRXSYNC == 0x6995, "syncs");
_Static_assert(NIOCCONFIG == 0xc1106996 && NIOCCTRL == 0xc0586997, "ioctls");
_Static_assert(NETMAP_REQ_POOLS_INFO_GET == 12 && NETMAP_REQ_CSB_ENABLE == 15, "requests");
