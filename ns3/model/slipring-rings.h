/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_RINGS_H
#define SLIPRING_RINGS_H

/**
 * \file
 * \ingroup slipring-net-device
 * Steps along netmap's rings. Only source files include this header.
 */

#include <cstddef>
#include <cstdint>
#include <net/netmap.h>

namespace ns3
{

/**
 * \param ring the ring
 * \param at number of a slot
 * \return number of the next slot
 */
inline uint32_t
SlipringRingNext(const netmap_ring* ring, uint32_t at)
{
    return at + 1 >= ring->num_slots ? 0 : at + 1;
}

/**
 * \param ring the ring
 * \return number of slots that the program owns
 */
inline uint32_t
SlipringRingSpace(const netmap_ring* ring)
{
    uint32_t head = ring->head;
    uint32_t tail = ring->tail;
    return tail >= head ? tail - head : tail + ring->num_slots - head;
}

/**
 * \param ring the ring
 * \param index number of a buffer
 * \return the buffer
 */
inline uint8_t*
SlipringSlotBuffer(netmap_ring* ring, uint32_t index)
{
    return reinterpret_cast<uint8_t*>(ring) + ring->buf_ofs +
           static_cast<std::size_t>(index) * ring->nr_buf_size;
}

} // namespace ns3

#endif /* SLIPRING_RINGS_H */
