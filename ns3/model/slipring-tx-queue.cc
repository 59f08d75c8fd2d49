/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-tx-queue.h"

#include "slipring-rings.h"

#include <algorithm>
#include <cstring>
#include <slipring.h>

namespace ns3
{

namespace
{

/**
 * \param ring a tx ring, or null
 * \return number of slots that are still to be freed: in the ring of an end of a pipe that was opened
 *         again, frames that the peer has not read
 */
uint32_t
SlotsInFlight(const netmap_ring* ring)
{
    uint32_t space = ring ? SlipringRingSpace(ring) : 0;
    return ring && space < ring->num_slots ? ring->num_slots - 1 - space : 0;
}

} // namespace

SlipringTxQueue::SlipringTxQueue(slipring_port* port, uint32_t queue, bool shared)
    : m_port(port),
      m_queue(queue),
      m_shared(shared),
      m_ring(slipring_tx_ring(port, queue)),
      m_tail(m_ring ? m_ring->tail : 0),
      m_unsynced(0),
      m_inflightBytes(0),
      m_inflightFrames(0),
      m_lengths(SlotsInFlight(m_ring), 0)
{
}

uint32_t
SlipringTxQueue::GetSlots() const
{
    return m_ring ? m_ring->num_slots : 0;
}

uint32_t
SlipringTxQueue::GetSpace() const
{
    return m_ring ? SlipringRingSpace(m_ring) : 0;
}

uint32_t
SlipringTxQueue::SlotsFor(std::size_t length) const
{
    std::size_t size = m_ring ? m_ring->nr_buf_size : 1;
    return static_cast<uint32_t>(std::max<std::size_t>(1, (length + size - 1) / size));
}

uint8_t*
SlipringTxQueue::Reserve(std::size_t length) const
{
    if (!m_ring || m_shared || length > m_ring->nr_buf_size || GetSpace() == 0)
    {
        return nullptr;
    }
    return SlipringSlotBuffer(m_ring, m_ring->slot[m_ring->head].buf_idx);
}

bool
SlipringTxQueue::Publish(const uint8_t* frame, std::size_t length)
{
    uint32_t slots = SlotsFor(length);
    if (!m_ring || GetSpace() < slots)
    {
        return false;
    }
    if (m_shared)
    {
        // libslipring checks the slots, which another process may have changed.
        if (slipring_send(m_port, m_queue, frame, length) != 1)
        {
            return false;
        }
    }
    else
    {
        FillSlots(frame, length);
    }
    for (uint32_t i = 1; i < slots; i++)
    {
        m_lengths.push_back(0);
    }
    m_lengths.push_back(static_cast<uint32_t>(length));
    m_inflightBytes += length;
    m_inflightFrames++;
    m_unsynced++;
    return true;
}

void
SlipringTxQueue::FillSlots(const uint8_t* frame, std::size_t length)
{
    uint32_t at = m_ring->head;
    do
    {
        netmap_slot& slot = m_ring->slot[at];
        std::size_t part = std::min<std::size_t>(length, m_ring->nr_buf_size);
        uint8_t* buffer = SlipringSlotBuffer(m_ring, slot.buf_idx);
        if (buffer != frame)
        {
            std::memcpy(buffer, frame, part);
        }
        frame += part;
        length -= part;
        slot.len = static_cast<uint16_t>(part);
        slot.flags = length > 0 ? NS_MOREFRAG : 0;
        at = SlipringRingNext(m_ring, at);
    } while (length > 0);
    m_ring->head = m_ring->cur = at;
}

int
SlipringTxQueue::Sync(Completed& completed)
{
    if (!m_ring)
    {
        return 0;
    }
    int status = slipring_tx_sync(m_port, m_queue);
    if (status < 0)
    {
        return status;
    }
    m_unsynced = 0;
    uint32_t tail = m_ring->tail;
    for (; m_tail != tail && !m_lengths.empty(); m_tail = SlipringRingNext(m_ring, m_tail))
    {
        uint32_t length = m_lengths.front();
        m_lengths.pop_front();
        completed.slots++;
        if (length > 0)
        {
            completed.frames++;
            completed.bytes += length;
            m_inflightFrames--;
            m_inflightBytes -= length;
        }
    }
    m_tail = tail;
    return 0;
}

void
SlipringTxQueue::WaitForProgress()
{
    if (m_ring)
    {
        m_ring->cur = m_ring->tail;
    }
}

} // namespace ns3
