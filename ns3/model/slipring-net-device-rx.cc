/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// How SlipringNetDevice receives frames, and when its service function runs.

#include "slipring-frame.h"
#include "slipring-net-device-impl.h"
#include "slipring-poller.h"
#include "slipring-port.h"
#include "slipring-private-access.h"
#include "slipring-switch.h"
#include "slipring-tags.h"

#include "ns3/log.h"
#include "ns3/realtime-simulator-impl.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <slipring.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringNetDeviceRx");

namespace
{
/// Shortest frame: an Ethernet header
constexpr std::size_t MIN_FRAME = 14;

/// Returns the time of the real-time clock.
Time
ClockTime()
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return Seconds(static_cast<int64_t>(now.tv_sec)) + NanoSeconds(now.tv_nsec);
}
} // namespace

void
SlipringNetDevice::ScheduleMember(Time delay, void (SlipringNetDevice::*function)())
{
    uint32_t context = GetNode() ? GetNode()->GetId() : Simulator::NO_CONTEXT;
    Simulator::ScheduleWithContext(context, delay, new Event(m_guard, function));
}

void
SlipringNetDevice::ScheduleService()
{
    if (!m_servicePending && m_running)
    {
        m_servicePending = true;
        // With this delay, simulated time follows the clock and other events run, even while frames
        // keep arriving.
        ScheduleMember(GetLag(), &SlipringNetDevice::Service);
    }
}

Time
SlipringNetDevice::GetLag() const
{
    auto realtime = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
    return realtime ? std::max(realtime->RealtimeNow() - Simulator::Now(), Time(0)) : Time(0);
}

void
SlipringNetDevice::SchedulePeriod()
{
    if (!m_period.IsZero() && !m_periodPending && m_running)
    {
        m_periodPending = true;
        ScheduleMember(m_period, &SlipringNetDevice::ServePeriod);
    }
}

void
SlipringNetDevice::ServePeriod()
{
    m_periodPending = false;
    if (m_running)
    {
        Flush();
        Service();
        SchedulePeriod();
    }
}

void
SlipringNetDevice::Service()
{
    NS_LOG_FUNCTION(this);
    m_servicePending = false;
    if (!m_running)
    {
        return;
    }
    ObserveLag();
    EndWait();
    bool more = Receive();
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        if (m_queues[i].tx.GetInflightFrames() > 0 || m_queues[i].stopped)
        {
            SyncTx(i);
        }
    }
    if (!m_running)
    {
        return;
    }
    if (more)
    {
        ScheduleService();
    }
    else
    {
        Wait();
    }
}

void
SlipringNetDevice::Wait()
{
    if (!m_poller || m_armed || !m_running || m_servicePending)
    {
        return;
    }
    uint32_t events = m_ended ? 0 : SLIPRING_WAIT_RX;
    if (WantsTxEvents())
    {
        events |= SLIPRING_WAIT_TX;
        for (Queue& queue : m_queues)
        {
            queue.tx.WaitForProgress();
        }
    }
    if (events == 0)
    {
        return;
    }
    uint64_t untilNs = SLIPRING_NEVER;
    int ready = slipring_arm(m_port->Get(), events, &untilNs);
    if (ready < 0)
    {
        PortFailed(ready);
        return;
    }
    m_armed = true;
    m_armedEvents = events;
    m_ended = m_ended || (ready & SLIPRING_WAIT_END);
    if (ready != 0)
    {
        EndWait();
        ScheduleService();
    }
    else
    {
        m_poller->Arm(untilNs);
    }
}

void
SlipringNetDevice::EndWait()
{
    if (!m_armed)
    {
        return;
    }
    m_armed = false;
    m_poller->Disarm();
    int ready = slipring_disarm(m_port->Get(), m_armedEvents);
    if (ready < 0)
    {
        NS_LOG_DEBUG("the port returns errors; the next sync reports them");
    }
}

namespace
{
/// Returns the devices at pipes that run in deterministic mode, by the key that both ends of a pipe
/// have in common
std::map<std::string, std::set<SlipringNetDevice*>>&
PipeMembers()
{
    static std::map<std::string, std::set<SlipringNetDevice*>> members;
    return members;
}
} // namespace

void
SlipringNetDevice::JoinPeers()
{
    m_pipeKey = m_port->GetPipeKey();
    if (m_switch)
    {
        m_switch->Join(m_port->GetSwitchNumber(), [this]() { ScheduleService(); });
    }
    else if (!m_pipeKey.empty())
    {
        PipeMembers()[m_pipeKey].insert(this);
    }
}

void
SlipringNetDevice::LeavePeers()
{
    if (m_switch)
    {
        m_switch->Leave(m_port->GetSwitchNumber());
    }
    auto found = PipeMembers().find(m_pipeKey);
    if (found != PipeMembers().end())
    {
        found->second.erase(this);
        if (found->second.empty())
        {
            PipeMembers().erase(found);
        }
    }
    m_pipeKey.clear();
}

bool
SlipringNetDevice::IsServedByPeers() const
{
    return m_switch || !m_pipeKey.empty();
}

void
SlipringNetDevice::NotifySent()
{
    if (m_switch)
    {
        m_switch->ScheduleForward();
    }
    KickPeers();
}

void
SlipringNetDevice::KickPeers()
{
    auto found = PipeMembers().find(m_pipeKey);
    if (found == PipeMembers().end())
    {
        return;
    }
    for (SlipringNetDevice* peer : found->second)
    {
        if (peer != this)
        {
            peer->ScheduleService();
        }
    }
}

bool
SlipringNetDevice::SyncRx(uint32_t number)
{
    int status = m_queues[number].rx.Sync();
    if (status < 0)
    {
        PortFailed(status);
    }
    return status >= 0;
}

bool
SlipringNetDevice::HasReceived()
{
    for (uint32_t i = 0; m_running && i < m_queues.size(); i++)
    {
        if (SyncRx(i) && m_queues[i].rx.HasFrame())
        {
            return true;
        }
    }
    return false;
}

bool
SlipringNetDevice::SyncRx()
{
    for (uint32_t i = 0; i < m_queues.size(); i++)
    {
        if (!SyncRx(i))
        {
            return false;
        }
        m_queues[i].burst = 0;
        if (m_queues[i].rx.WasFull())
        {
            m_stats[i].rxOverruns++;
            m_rxOverrunTrace(i, m_queues[i].rx.GetPending());
        }
        // Only an interface loses frames when the ring is full. A pipe makes its sender wait.
        if (m_running && !m_interface.empty() && DropOldest(i) && !SyncRx(i))
        {
            return false;
        }
    }
    return m_running;
}

bool
SlipringNetDevice::DropOldest(uint32_t number)
{
    Queue& queue = m_queues[number];
    double kept = (1 - m_rxDropOldest) * queue.rx.GetSlots();
    bool drops = (queue.overrun || queue.rx.WasFull()) && queue.rx.GetPending() > kept;
    queue.overrun = drops;
    SlipringRxQueue::Frame frame;
    // A callback of the trace source may stop the device, which ends its queues.
    while (m_running && drops && m_queues[number].rx.GetPending() > kept &&
           m_queues[number].rx.Take(frame))
    {
        m_stats[number].rxFrames++;
        DropReceived(number,
                     SlipringDropReason::RX_OVERRUN,
                     frame.data,
                     frame.complete ? frame.length : 0);
    }
    return m_running && drops;
}

bool
SlipringNetDevice::Receive()
{
    if (!m_receives || !SyncRx())
    {
        return false;
    }
    if (m_timestamps != NO_TIMESTAMP)
    {
        m_rxTime = m_isRealtime ? ClockTime() : Simulator::Now();
    }
    uint32_t queues = static_cast<uint32_t>(m_queues.size());
    queues = m_maxRxQueues > 0 ? std::min(queues, m_maxRxQueues) : queues;
    uint32_t received = 0;
    uint32_t empty = 0;
    while (m_running && received < m_rxBurst && empty < queues)
    {
        bool got = ReceiveFrame(m_nextRx % queues);
        m_nextRx = (m_nextRx + 1) % queues;
        received += got ? 1 : 0;
        empty = got ? 0 : empty + 1;
    }
    for (uint32_t i = 0; m_running && i < queues; i++)
    {
        if (m_queues[i].burst > 0)
        {
            m_stats[i].rxBursts++;
            m_rxBurstTrace(i, m_queues[i].burst);
        }
    }
    if (!m_running || received == 0)
    {
        return false;
    }
    if (received < m_rxBurst)
    {
        // If peers schedule the service of this device when frames arrive, only the slots are
        // returned now. Without such peers and without a poll thread, the service runs again, to
        // look for more frames.
        return IsServedByPeers() ? ReturnSlots() : !m_poller;
    }
    KickPeers();
    return true;
}

bool
SlipringNetDevice::ReturnSlots()
{
    bool more = false;
    for (Queue& queue : m_queues)
    {
        int status = queue.rx.Sync();
        if (status < 0)
        {
            PortFailed(status);
            return false;
        }
        more = more || queue.rx.HasFrame();
    }
    KickPeers();
    return more;
}

bool
SlipringNetDevice::ReceiveFrame(uint32_t number)
{
    SlipringRxQueue::Frame frame;
    if (!m_queues[number].rx.Take(frame))
    {
        return false;
    }
    m_queues[number].burst++;
    m_stats[number].rxFrames++;
    if (!frame.complete)
    {
        DropReceived(number, SlipringDropReason::RX_INCOMPLETE, frame.data, 0);
    }
    else if (frame.length < MIN_FRAME)
    {
        DropReceived(number, SlipringDropReason::RX_TOO_SHORT, frame.data, frame.length);
    }
    else
    {
        Accept(number, frame.data, frame.length);
    }
    return true;
}

void
SlipringNetDevice::Accept(uint32_t number, uint8_t* data, std::size_t length)
{
    if (length > GetMtu() + SLIPRING_MAX_HEADER)
    {
        AcceptLong(number, data, length);
        return;
    }
    if (m_checksumFixup && SlipringCompleteChecksum(data, length))
    {
        m_stats[number].rxChecksums++;
    }
    PassUp(number, data, length);
}

void
SlipringNetDevice::AcceptLong(uint32_t number, const uint8_t* data, std::size_t length)
{
    std::vector<std::vector<uint8_t>> segments;
    if (m_checksumFixup)
    {
        segments = SlipringSegmentTcp(data, length, GetMtu());
    }
    if (segments.empty())
    {
        if (!m_warnedLong)
        {
            m_warnedLong = true;
            NS_LOG_WARN(m_portName << ": a frame of " << length << " bytes is longer than the MTU of "
                                   << GetMtu() << " bytes: ethtool -K IF gso off tso off, on the "
                                   << "sending interface");
        }
        DropReceived(number, SlipringDropReason::RX_TOO_LONG, data, length);
        return;
    }
    m_stats[number].rxSegments += segments.size() - 1;
    // A callback may stop the device. The segments stay valid, because this function owns them.
    for (auto& segment : segments)
    {
        PassUp(number, segment.data(), segment.size());
    }
}

void
SlipringNetDevice::PassUp(uint32_t number, uint8_t* data, std::size_t length)
{
    m_stats[number].rxPackets++;
    m_stats[number].rxBytes += length;
    m_pendingQueue.emplace(data, static_cast<ssize_t>(length));
    SlipringForwardUp(*this);
}

void
SlipringNetDevice::DropReceived(uint32_t number,
                                SlipringDropReason reason,
                                const uint8_t* data,
                                std::size_t length)
{
    m_stats[number].drops[static_cast<std::size_t>(reason)]++;
    if (!m_dropTrace.IsEmpty())
    {
        m_dropTrace(Create<Packet>(data, static_cast<uint32_t>(length)), reason);
    }
}

void
SlipringNetDevice::SetReceiveCallback(NetDevice::ReceiveCallback cb)
{
    m_receive = cb;
}

void
SlipringNetDevice::SetPromiscReceiveCallback(NetDevice::PromiscReceiveCallback cb)
{
    m_promiscReceive = cb;
    FdNetDevice::SetPromiscReceiveCallback(
        cb.IsNull() ? cb : MakeCallback(&SlipringNetDevice::DeliverPromisc, this));
}

void
SlipringNetDevice::Stamp(Ptr<const Packet> packet)
{
    SlipringTimestampTag tag;
    if (m_timestamps != NO_TIMESTAMP && !packet->PeekPacketTag(tag))
    {
        packet->AddPacketTag(SlipringTimestampTag(m_rxTime));
        m_timestampTrace(packet, m_rxTime);
    }
}

bool
SlipringNetDevice::Deliver(Ptr<NetDevice> device,
                           Ptr<const Packet> packet,
                           uint16_t protocol,
                           const Address& source)
{
    Stamp(packet);
    return !m_receive.IsNull() && m_receive(device, packet, protocol, source);
}

bool
SlipringNetDevice::DeliverPromisc(Ptr<NetDevice> device,
                                  Ptr<const Packet> packet,
                                  uint16_t protocol,
                                  const Address& source,
                                  const Address& destination,
                                  PacketType type)
{
    Stamp(packet);
    return m_promiscReceive(device, packet, protocol, source, destination, type);
}

} // namespace ns3
