/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-rx-queue.h"

#include "slipring-rings.h"

#include <slipring.h>

namespace ns3
{

namespace
{
/// Longest frame that a shared ring can bring, in bytes: the longest IP packet, and the headers
/// before it
constexpr std::size_t MAX_SHARED_FRAME = 65536 + 64;
} // namespace

SlipringRxQueue::SlipringRxQueue(slipring_port* port, uint32_t queue, bool shared)
    : m_port(port),
      m_queue(queue),
      m_shared(shared),
      m_ring(slipring_rx_ring(port, queue)),
      m_synced(m_ring ? m_ring->head : 0),
      m_wasFull(false)
{
    if (shared)
    {
        m_scratch.resize(MAX_SHARED_FRAME);
    }
}

int
SlipringRxQueue::Sync()
{
    if (!m_ring)
    {
        return 0;
    }
    uint32_t slots = m_ring->num_slots;
    uint32_t head = m_ring->head;
    uint32_t taken = head >= m_synced ? head - m_synced : head + slots - m_synced;
    m_synced = head;
    int status = slipring_rx_sync(m_port, m_queue);
    m_wasFull = HasFrame() && GetPending() + taken + 1 >= slots;
    return status;
}

bool
SlipringRxQueue::HasFrame() const
{
    return m_ring && m_ring->head != m_ring->tail;
}

uint32_t
SlipringRxQueue::GetPending() const
{
    return m_ring ? SlipringRingSpace(m_ring) : 0;
}

bool
SlipringRxQueue::WasFull() const
{
    return m_wasFull;
}

uint32_t
SlipringRxQueue::GetSlots() const
{
    return m_ring ? m_ring->num_slots : 0;
}

bool
SlipringRxQueue::TakeChecked(Frame& frame)
{
    std::size_t length = 0;
    if (slipring_receive(m_port, m_queue, m_scratch.data(), m_scratch.size(), &length) != 1)
    {
        return false;
    }
    frame.complete = length <= m_scratch.size();
    frame.data = m_scratch.data();
    frame.length = frame.complete ? length : m_scratch.size();
    return true;
}

bool
SlipringRxQueue::Take(Frame& frame)
{
    if (!HasFrame())
    {
        return false;
    }
    if (m_shared)
    {
        return TakeChecked(frame);
    }
    uint32_t at = m_ring->head;
    const netmap_slot* slot = &m_ring->slot[at];
    frame.data = SlipringSlotBuffer(m_ring, slot->buf_idx);
    frame.length = slot->len;
    frame.complete = slot->len <= m_ring->nr_buf_size;
    if (slot->flags & NS_MOREFRAG)
    {
        m_scratch.assign(frame.data, frame.data + (frame.complete ? frame.length : 0));
    }
    bool more = slot->flags & NS_MOREFRAG;
    at = SlipringRingNext(m_ring, at);
    while (more && at != m_ring->tail)
    {
        slot = &m_ring->slot[at];
        frame.complete = frame.complete && slot->len <= m_ring->nr_buf_size;
        const uint8_t* part = SlipringSlotBuffer(m_ring, slot->buf_idx);
        m_scratch.insert(m_scratch.end(), part, part + (frame.complete ? slot->len : 0));
        frame.data = m_scratch.data();
        frame.length = m_scratch.size();
        more = slot->flags & NS_MOREFRAG;
        at = SlipringRingNext(m_ring, at);
    }
    frame.complete = frame.complete && !more;
    m_ring->head = m_ring->cur = at;
    return true;
}

} // namespace ns3
