/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// How SlipringNetDevice sends: queues, flow control, flushes, stalls.

#include "slipring-net-device-impl.h"
#include "slipring-port.h"
#include "slipring-private-access.h"
#include "slipring-tags.h"

#include "ns3/log.h"
#include "ns3/queue-item.h"
#include "ns3/queue-limits.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringNetDeviceTx");

namespace
{
/// Upper limit of the default of TxWakeThreshold
constexpr uint32_t MAX_DEFAULT_WAKE_THRESHOLD = 32;

/// How long a published frame waits at most for others, in simulated time, while the simulator is
/// behind the clock; in us
constexpr int64_t MAX_FLUSH_DELAY_US = 200;
} // namespace

bool
SlipringNetDevice::SendFrom(Ptr<Packet> packet,
                            const Address& source,
                            const Address& dest,
                            uint16_t protocolNumber)
{
    NS_LOG_FUNCTION(this << packet << source << dest << protocolNumber);
    uint32_t outerQueue = m_txQueue;
    SlipringTxQueueTag tag;
    m_txQueue = packet->RemovePacketTag(tag) && tag.GetQueue() < m_queues.size() ? tag.GetQueue() : 0;
    bool sent = false;
    if (packet->GetSize() > GetMtu())
    {
        RefuseTx(SlipringDropReason::TX_TOO_LONG);
        SlipringFireMacTxDrop(*this, packet);
    }
    else
    {
        if (!m_linkUp)
        {
            RefuseTx(SlipringDropReason::TX_LINK_DOWN);
        }
        sent = FdNetDevice::SendFrom(packet, source, dest, protocolNumber);
    }
    // A queue disc that was woken by this packet has called this function, too, and has set
    // m_txQueue.
    m_txQueue = outerQueue;
    if (!sent)
    {
        m_dropTrace(packet, m_refusal);
    }
    return sent;
}

std::size_t
SlipringNetDevice::SelectQueue(Ptr<QueueItem> item) const
{
    uint32_t queues = std::max<uint32_t>(1, GetNTxQueues());
    // Items of the traffic control layer know the flow of their packet.
    Ptr<QueueDiscItem> flow = DynamicCast<QueueDiscItem>(item);
    uint32_t queue = flow ? flow->Hash() % queues : 0;
    SlipringTxQueueTag tag(queue);
    item->GetPacket()->ReplacePacketTag(tag);
    return queue;
}

uint8_t*
SlipringNetDevice::AllocateBuffer(size_t len)
{
    uint8_t* slot = m_running ? m_queues[m_txQueue].tx.Reserve(len) : nullptr;
    if (slot)
    {
        return slot;
    }
    m_scratch.resize(std::max(len, m_scratch.size()));
    return m_scratch.data();
}

void
SlipringNetDevice::FreeBuffer(uint8_t* buf)
{
    // Nothing to free: frames are in slots, or in memory of this object.
    NS_LOG_FUNCTION(this << static_cast<void*>(buf));
}

ssize_t
SlipringNetDevice::RefuseTx(SlipringDropReason reason)
{
    m_refusal = reason;
    if (m_stats.size() <= m_txQueue)
    {
        m_stats.resize(m_txQueue + 1);
    }
    m_stats[m_txQueue].drops[static_cast<std::size_t>(reason)]++;
    return -1;
}

ssize_t
SlipringNetDevice::Write(uint8_t* buffer, size_t length)
{
    NS_LOG_FUNCTION(this << static_cast<void*>(buffer) << length);
    uint32_t number = m_txQueue;
    if (!m_running || !m_linkUp)
    {
        return RefuseTx(SlipringDropReason::TX_LINK_DOWN);
    }
    Queue& queue = m_queues[number];
    if (length == 0 || length > m_port->GetMaxFrame() ||
        queue.tx.SlotsFor(length) >= queue.tx.GetSlots())
    {
        return RefuseTx(SlipringDropReason::TX_TOO_LONG);
    }
    if (queue.stopped)
    {
        return RefuseTx(SlipringDropReason::TX_QUEUE_STOPPED);
    }
    if (queue.tx.GetInflightFrames() == 0)
    {
        queue.lastProgress = Simulator::Now();
    }
    bool hadRoom = queue.tx.Publish(buffer, length);
    if (!hadRoom)
    {
        // The frame needs more slots than a frame of the MTU, or there is no flow control. A sync
        // may free enough slots. The frame may be in a slot itself, so it is copied first.
        std::vector<uint8_t> frame(buffer, buffer + length);
        if (!SyncTx(number) || !m_queues[number].tx.Publish(frame.data(), length))
        {
            return RefuseTx(SlipringDropReason::TX_RING_FULL);
        }
    }
    m_stats[number].txAccepted++;
    bool isLimited = NotifyQueued(number, static_cast<uint32_t>(length));
    UpdateInflight();
    ScheduleStallCheck();
    bool isFull = queue.tx.GetUnsynced() >= m_txBurst;
    if (m_txFlush == IMMEDIATE || isFull)
    {
        Flush();
    }
    else if (m_txFlush == END_OF_INSTANT && (isLimited || !m_flushPending))
    {
        // A simulator that is behind the clock has more events to run now, whose frames leave
        // together. The flush is scheduled for a time that the clock has reached already, so it
        // runs before the simulator sleeps.
        Time most = MicroSeconds(MAX_FLUSH_DELAY_US);
        ScheduleFlush(isLimited ? Time(0) : std::min(GetLag(), most));
    }
    if (m_running)
    {
        StopIfFull(number);
    }
    return static_cast<ssize_t>(length);
}

void
SlipringNetDevice::ScheduleFlush(Time delay)
{
    Time when = Simulator::Now() + delay;
    if (!m_flushPending || when < m_flushTime)
    {
        m_flushPending = true;
        m_flushTime = when;
        ScheduleFlushEvent();
    }
}

void
SlipringNetDevice::ScheduleFlushEvent()
{
    if (m_flushTime < m_flushEventTime)
    {
        m_flushEventTime = m_flushTime;
        ScheduleMember(m_flushTime - Simulator::Now(), &SlipringNetDevice::FlushIfDue);
    }
}

void
SlipringNetDevice::FlushIfDue()
{
    if (Simulator::Now() >= m_flushEventTime)
    {
        m_flushEventTime = Time::Max();
    }
    // Since this event was scheduled, TxBurst frames may have caused a flush, and frames that were
    // published after it are due later.
    if (m_flushPending && Simulator::Now() >= m_flushTime)
    {
        FlushAndReceive();
    }
    else if (m_flushPending)
    {
        ScheduleFlushEvent();
    }
}

void
SlipringNetDevice::FlushAndReceive()
{
    const bool wasArmed = m_armed;
    EndWait();
    Flush();
    if (wasArmed && HasReceived())
    {
        ScheduleService();
    }
    else if (wasArmed)
    {
        Wait();
    }
}

bool
SlipringNetDevice::NotifyQueued(uint32_t number, uint32_t bytes)
{
    Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(number);
    if (!deviceQueue)
    {
        return false;
    }
    bool wasStopped = deviceQueue->IsStopped();
    deviceQueue->NotifyQueuedBytes(bytes);
    bool isStopped = deviceQueue->IsStopped();
    m_stats[number].limitStops += !wasStopped && isStopped ? 1 : 0;
    return isStopped;
}

void
SlipringNetDevice::ResetLimits(uint32_t number)
{
    Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(number);
    if (!deviceQueue)
    {
        return;
    }
    deviceQueue->ResetQueueLimits();
    if (Ptr<QueueLimits> limits = deviceQueue->GetQueueLimits())
    {
        // DynamicQueueLimits::Reset does not recompute its bound, but any report of completed bytes
        // does.
        limits->Completed(0);
    }
    if (m_queues[number].stopped)
    {
        deviceQueue->Start();
    }
}

void
SlipringNetDevice::StopFull()
{
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        m_queues[i].lastProgress = Simulator::Now();
        StopIfFull(i);
        if (m_running && m_queues[i].stopped)
        {
            ScheduleStallCheck();
        }
    }
}

void
SlipringNetDevice::ResumeLimited()
{
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(i);
        Ptr<QueueLimits> limits = deviceQueue ? deviceQueue->GetQueueLimits() : nullptr;
        if (limits && deviceQueue->IsStopped() && m_queues[i].tx.GetInflightFrames() == 0)
        {
            // The frames for which the limits stopped the queue were in the former ring.
            // Only bytes that were transmitted end such a stop, and run the queue disc.
            limits->Queued(1);
            deviceQueue->NotifyTransmittedBytes(1);
        }
    }
}

void
SlipringNetDevice::Flush()
{
    NS_LOG_FUNCTION(this);
    m_flushPending = false;
    bool sent = false;
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        if (m_queues[i].tx.GetUnsynced() > 0)
        {
            sent = SyncTx(i);
        }
    }
    if (m_running && sent && m_armed && WantsTxEvents())
    {
        EndWait();
        Wait();
    }
}

bool
SlipringNetDevice::SyncTx(uint32_t number)
{
    Queue& queue = m_queues[number];
    SlipringQueueStats& stats = m_stats[number];
    SlipringTxQueue::Completed completed;
    uint32_t published = queue.tx.GetUnsynced();
    int status = queue.tx.Sync(completed);
    if (status < 0)
    {
        PortFailed(status);
        return false;
    }
    stats.txSyncs++;
    stats.txPackets += completed.frames;
    stats.txBytes += completed.bytes;
    if (completed.slots > 0)
    {
        queue.lastProgress = Simulator::Now();
        queue.stalled = false;
    }
    UpdateInflight();
    if (published > 0)
    {
        m_txSyncTrace(number, published);
        NotifySent();
    }
    Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(number);
    if (deviceQueue && completed.bytes > 0)
    {
        // May run the queue disc, which calls Write.
        deviceQueue->NotifyTransmittedBytes(completed.bytes);
    }
    if (m_running)
    {
        WakeIfRoom(number);
    }
    return m_running;
}

Ptr<NetDeviceQueue>
SlipringNetDevice::GetDeviceQueue(uint32_t number) const
{
    if (!m_queueInterface || number >= m_queueInterface->GetNTxQueues())
    {
        return nullptr;
    }
    return m_queueInterface->GetTxQueue(number);
}

void
SlipringNetDevice::StopIfFull(uint32_t number)
{
    uint32_t needed = m_queues[number].tx.SlotsFor(GetMtu() + SLIPRING_MAX_HEADER);
    Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(number);
    if (!deviceQueue || m_queues[number].stopped || m_queues[number].tx.GetSpace() >= needed)
    {
        return;
    }
    // The sync sends published frames, and frees slots of sent frames; these may suffice.
    if (!SyncTx(number) || m_queues[number].stopped || m_queues[number].tx.GetSpace() >= needed)
    {
        return;
    }
    m_queues[number].stopped = true;
    m_stats[number].stops++;
    m_txRingFullTrace(number);
    deviceQueue->Stop();
    if (m_armed)
    {
        EndWait();
        Wait();
    }
}

void
SlipringNetDevice::WakeIfRoom(uint32_t number)
{
    Queue& queue = m_queues[number];
    uint32_t slots = queue.tx.GetSlots();
    uint32_t threshold = m_wakeThreshold > 0 ? m_wakeThreshold
                                             : std::min(MAX_DEFAULT_WAKE_THRESHOLD, slots / 4);
    uint32_t needed = queue.tx.SlotsFor(GetMtu() + SLIPRING_MAX_HEADER);
    threshold = std::min(std::max({threshold, needed, uint32_t(1)}), slots - 1);
    Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(number);
    if (!queue.stopped || queue.tx.GetSpace() < threshold)
    {
        return;
    }
    queue.stopped = false;
    m_stats[number].wakes++;
    if (deviceQueue)
    {
        // Since ns-3.38 this runs the queue disc, which calls Write.
        deviceQueue->Wake();
    }
}

void
SlipringNetDevice::UpdateInflight()
{
    uint64_t bytes = 0;
    for (const Queue& queue : m_queues)
    {
        bytes += queue.tx.GetInflightBytes();
    }
    m_inflightBytes = static_cast<uint32_t>(bytes);
}

bool
SlipringNetDevice::WantsTxEvents() const
{
    for (uint32_t i = 0; i < m_queues.size(); i++)
    {
        // The ring of a stopped queue may be full of frames from before a restart, which do not
        // count as in flight. So a stopped queue needs events even if no frame is in flight.
        Ptr<NetDeviceQueue> deviceQueue = GetDeviceQueue(i);
        bool isLimited = deviceQueue && deviceQueue->GetQueueLimits();
        if (m_queues[i].stopped || (isLimited && m_queues[i].tx.GetInflightFrames() > 0))
        {
            return true;
        }
    }
    return false;
}

void
SlipringNetDevice::ScheduleStallCheck()
{
    if (!m_stallPending && !m_stallTimeout.IsZero())
    {
        m_stallPending = true;
        ScheduleMember(m_stallTimeout, &SlipringNetDevice::CheckStall);
    }
}

bool
SlipringNetDevice::IsWaiting(uint32_t number) const
{
    return m_queues[number].stopped || m_queues[number].tx.GetInflightFrames() > 0;
}

void
SlipringNetDevice::CheckStall()
{
    m_stallPending = false;
    bool watch = false;
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        if (m_queues[i].stalled || !IsWaiting(i) || !SyncTx(i) || !IsWaiting(i))
        {
            continue;
        }
        if (Simulator::Now() - m_queues[i].lastProgress < m_stallTimeout)
        {
            watch = true;
            continue;
        }
        m_queues[i].stalled = true;
        m_stats[i].stalls++;
        NS_LOG_WARN(m_portName << ": queue " << i << " has sent nothing for "
                               << m_stallTimeout.As(Time::S) << ", with "
                               << m_queues[i].tx.GetInflightSlots()
                               << " slots of its ring in use: nobody takes the frames");
        m_stallTrace(i);
    }
    if (watch && m_running)
    {
        ScheduleStallCheck();
    }
}

} // namespace ns3
