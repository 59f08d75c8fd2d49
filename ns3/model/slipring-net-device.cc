/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-net-device.h"

#include "slipring-interface.h"
#include "slipring-net-device-impl.h"
#include "slipring-ns3-compat.h"
#include "slipring-poller.h"
#include "slipring-port.h"
#include "slipring-switch.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/global-value.h"
#include "ns3/log.h"
#include "ns3/queue-item.h"
#include "ns3/realtime-simulator-impl.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"
#include "slipring-tags.h"

#include <algorithm>
#include <slipring.h>
#include <unistd.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringNetDevice");

NS_OBJECT_ENSURE_REGISTERED(SlipringNetDevice);

TypeId
SlipringNetDevice::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::SlipringNetDevice")
            .SetParent<FdNetDevice>()
            .SetGroupName("FdNetDevice")
            .AddConstructor<SlipringNetDevice>()
            .AddAttribute("PortName",
                          "Name of the port: netmap:eth1, packet:eth1, tap:ns0, lan{1, pcap:FILE.",
                          StringValue(""),
                          MakeStringAccessor(&SlipringNetDevice::m_portName),
                          MakeStringChecker())
            .AddAttribute("RunDir",
                          "Run directory of the daemon that has the pipe. If it is empty, pipes "
                          "belong to this process.",
                          StringValue(""),
                          MakeStringAccessor(&SlipringNetDevice::m_runDir),
                          MakeStringChecker())
            .AddAttribute("RingSlots",
                          "Slots of each ring. 0: the default of libslipring.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&SlipringNetDevice::m_ringSlots),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("RxBurst",
                          "Maximum number of frames that one event receives.",
                          UintegerValue(64),
                          MakeUintegerAccessor(&SlipringNetDevice::m_rxBurst),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("RxDropOldest",
                          "Share of an interface's rx ring that is kept free after a burst has "
                          "found the ring full, until less arrives: each burst drops the oldest "
                          "frames, so that those which are received are not old. 0: none; then only "
                          "new frames are lost, at the full ring.",
                          DoubleValue(0.25),
                          MakeDoubleAccessor(&SlipringNetDevice::m_rxDropOldest),
                          MakeDoubleChecker<double>(0, 1))
            .AddAttribute("TxBurst",
                          "Number of frames after which published frames are sent in any case.",
                          UintegerValue(32),
                          MakeUintegerAccessor(&SlipringNetDevice::m_txBurst),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("TxFlush",
                          "When published frames are sent. At EndOfInstant, a real-time simulator "
                          "that is behind the clock sends them up to 200 us of simulated time later.",
                          SLIPRING_ENUM_VALUE(SlipringNetDevice::FlushPolicy, END_OF_INSTANT),
                          SLIPRING_ENUM_ACCESSOR(SlipringNetDevice::FlushPolicy,
                                                 &SlipringNetDevice::m_txFlush),
                          MakeEnumChecker(END_OF_INSTANT,
                                          "EndOfInstant",
                                          IMMEDIATE,
                                          "Immediate",
                                          PERIOD,
                                          "Period"))
            .AddAttribute("SyncAndNotifyQueuePeriod",
                          "Period after which the port is served without an event of the port. 0: "
                          "only when there is an event.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&SlipringNetDevice::m_period),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("TxWakeThreshold",
                          "Number of free slots at which a stopped queue is woken. 0: the lower of "
                          "32 and a quarter of the ring.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&SlipringNetDevice::m_wakeThreshold),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("NTxQueues",
                          "Maximum number of tx queues. 0: all that the port has.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&SlipringNetDevice::m_maxTxQueues),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("NRxQueues",
                          "Maximum number of rx queues that are read. 0: all that the port has.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&SlipringNetDevice::m_maxRxQueues),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("Timestamping",
                          "Time of reception that packets carry in a SlipringTimestampTag.",
                          SLIPRING_ENUM_VALUE(SlipringNetDevice::TimestampMode, NO_TIMESTAMP),
                          SLIPRING_ENUM_ACCESSOR(SlipringNetDevice::TimestampMode,
                                                 &SlipringNetDevice::m_timestamps),
                          MakeEnumChecker(NO_TIMESTAMP,
                                          "None",
                                          SOFTWARE,
                                          "Software",
                                          HARDWARE,
                                          "Hardware"))
            .AddAttribute("ChecksumFixup",
                          "Whether checksums that the sender left to its NIC are completed, and "
                          "TCP frames that it left to its NIC to segment are segmented.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&SlipringNetDevice::m_checksumFixup),
                          MakeBooleanChecker())
            .AddAttribute("Promiscuous",
                          "Whether frames for other hosts are received.",
                          SLIPRING_ENUM_VALUE(SlipringNetDevice::PromiscuousMode, ENABLE),
                          SLIPRING_ENUM_ACCESSOR(SlipringNetDevice::PromiscuousMode,
                                                 &SlipringNetDevice::m_promiscuous),
                          MakeEnumChecker(REQUIRE,
                                          "Require",
                                          ENABLE,
                                          "Enable",
                                          IGNORE_OTHERS,
                                          "Ignore"))
            .AddAttribute("HostStack",
                          "Whether the host's stack goes on using the interface.",
                          SLIPRING_ENUM_VALUE(SlipringNetDevice::HostStackMode, DETACH),
                          SLIPRING_ENUM_ACCESSOR(SlipringNetDevice::HostStackMode,
                                                 &SlipringNetDevice::m_hostStack),
                          MakeEnumChecker(DETACH, "Detach", SHARE, "Share"))
            .AddAttribute("StopDrainTime",
                          "How long the stop of the device waits for frames in the tx rings, by "
                          "the clock. In deterministic mode the stop does not wait.",
                          TimeValue(MilliSeconds(100)),
                          MakeTimeAccessor(&SlipringNetDevice::m_stopDrainTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("MaxRealtimeLag",
                          "Lag of the real-time simulator from which on the user is warned. 0: "
                          "never.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&SlipringNetDevice::m_maxLag),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("TxStallTimeout",
                          "Time after which a tx ring that sends nothing counts as stalled. 0: "
                          "never.",
                          TimeValue(Seconds(2)),
                          MakeTimeAccessor(&SlipringNetDevice::m_stallTimeout),
                          MakeTimeChecker(Time(0)))
            .AddTraceSource("TxRingFull",
                            "A tx queue was stopped because its ring has no room.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_txRingFullTrace),
                            "ns3::SlipringNetDevice::QueueTracedCallback")
            .AddTraceSource("RxOverrun",
                            "A burst found an rx ring full. The port counts the frames that it "
                            "has dropped meanwhile.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_rxOverrunTrace),
                            "ns3::SlipringNetDevice::FramesTracedCallback")
            .AddTraceSource("TxSync",
                            "Frames were sent by one tx sync.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_txSyncTrace),
                            "ns3::SlipringNetDevice::FramesTracedCallback")
            .AddTraceSource("RxBurst",
                            "Frames were received by one event.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_rxBurstTrace),
                            "ns3::SlipringNetDevice::FramesTracedCallback")
            .AddTraceSource("TxInflightBytes",
                            "Bytes of the frames in all tx rings.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_inflightBytes),
                            "ns3::TracedValueCallback::Uint32")
            .AddTraceSource("Drop",
                            "A packet was dropped.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_dropTrace),
                            "ns3::SlipringNetDevice::DropTracedCallback")
            .AddTraceSource("RxTimestamp",
                            "A packet with a time of reception is passed up.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_timestampTrace),
                            "ns3::SlipringNetDevice::TimestampTracedCallback")
            .AddTraceSource("RealtimeLag",
                            "How far the simulation is behind the clock, at each burst.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_lagTrace),
                            "ns3::SlipringNetDevice::LagTracedCallback")
            .AddTraceSource("LinkState",
                            "The link went up or down.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_linkTrace),
                            "ns3::SlipringNetDevice::LinkTracedCallback")
            .AddTraceSource("TxStall",
                            "No frame has left a tx ring for TxStallTimeout.",
                            MakeTraceSourceAccessor(&SlipringNetDevice::m_stallTrace),
                            "ns3::SlipringNetDevice::QueueTracedCallback");
    return tid;
}

SlipringNetDevice::SlipringNetDevice()
    : m_guard(std::make_shared<Guard>(Guard{this}))
{
    NS_LOG_FUNCTION(this);
    // FdNetDevice calls this callback without a check, so it must be set.
    FdNetDevice::SetReceiveCallback(MakeCallback(&SlipringNetDevice::Deliver, this));
}

SlipringNetDevice::~SlipringNetDevice()
{
    NS_LOG_FUNCTION(this);
    m_guard->device = nullptr;
}

void
SlipringNetDevice::DoInitialize()
{
    NS_LOG_FUNCTION(this);
    TimeValue start;
    TimeValue stop;
    GetAttribute("Start", start);
    GetAttribute("Stop", stop);
    if (m_startDevice.IsExpired())
    {
        Start(start.Get());
    }
    if (!stop.Get().IsZero())
    {
        Stop(stop.Get());
    }
    NetDevice::DoInitialize();
}

void
SlipringNetDevice::DoDispose()
{
    NS_LOG_FUNCTION(this);
    ClosePort();
    m_guard->device = nullptr;
    m_queueInterface = nullptr;
    m_receive.Nullify();
    m_promiscReceive.Nullify();
    FdNetDevice::DoDispose();
}

void
SlipringNetDevice::DoFinishStoppingDevice()
{
    StopPort();
}

void
SlipringNetDevice::NotifyNewAggregate()
{
    if (!m_queueInterface)
    {
        m_queueInterface = GetObject<NetDeviceQueueInterface>();
        if (m_queueInterface && m_queueInterface->GetNTxQueues() > 1)
        {
            m_queueInterface->SetSelectQueueCallback(
                [this](Ptr<QueueItem> item) { return SelectQueue(item); });
        }
    }
    FdNetDevice::NotifyNewAggregate();
}

void
SlipringNetDevice::Start(Time start)
{
    NS_LOG_FUNCTION(this << start);
    Simulator::Cancel(m_startDevice);
    m_startDevice = Simulator::Schedule(start, &SlipringNetDevice::StartPort, this);
}

void
SlipringNetDevice::Stop(Time stop)
{
    NS_LOG_FUNCTION(this << stop);
    Simulator::Cancel(m_stopDevice);
    m_stopDevice = Simulator::Schedule(stop, &SlipringNetDevice::StopPort, this);
}

SlipringError
SlipringNetDevice::Open()
{
    NS_LOG_FUNCTION(this);
    if (m_port)
    {
        return SlipringError();
    }
    m_lastError = CheckAttributes();
    if (m_lastError)
    {
        return m_lastError;
    }
    if (OpenPort())
    {
        m_lastError = CheckSimulator();
    }
    if (m_lastError)
    {
        m_port.reset();
        m_switch.reset();
        return m_lastError;
    }
    CreateQueues();
    NS_LOG_INFO(m_portName << ": " << m_port->GetKind() << " " << m_port->GetMode());
    return SlipringError();
}

bool
SlipringNetDevice::OpenPort()
{
    SlipringPortOptions options;
    options.slots = m_ringSlots;
    options.sharedWithHost = m_hostStack == SHARE;
    options.promiscuous = m_promiscuous != IGNORE_OTHERS;
    options.runDir = m_runDir;
    bool isRealtime = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation()) != nullptr;
    if (isRealtime || !m_runDir.empty() || !SlipringSwitch::IsPortName(m_portName))
    {
        m_port = SlipringPort::Open(m_portName, options, m_lastError);
        return m_port != nullptr;
    }
    m_switch = SlipringSwitch::Find(m_portName, m_lastError);
    m_port = m_switch ? m_switch->Open(m_portName, options, m_lastError) : nullptr;
    return m_port != nullptr;
}

SlipringError
SlipringNetDevice::CheckAttributes() const
{
    SlipringError error;
    StringValue implementation;
    GlobalValue::GetValueByName("SimulatorImplementationType", implementation);
    if (implementation.Get() == "ns3::DistributedSimulatorImpl" ||
        implementation.Get() == "ns3::NullMessageSimulatorImpl")
    {
        error.kind = SlipringError::MULTI_RANK;
        error.message = m_portName + ": the ranks of " + implementation.Get() +
                        " have no clock in common with the port, and it cannot wake them";
        error.help = "several processes with ns3::RealtimeSimulatorImpl, joined by pipes";
        return error;
    }
    if (GetEncapsulationMode() == DIXPI)
    {
        error.kind = SlipringError::USAGE;
        error.message = "EncapsulationMode DixPi: ports of slipring carry Ethernet frames";
        error.help = "EncapsulationMode Dix or Llc";
    }
    else if (m_timestamps == HARDWARE)
    {
        error.kind = SlipringError::MACHINE;
        error.message = "Timestamping Hardware: the port has no time stamps of the NIC";
        error.help = "Timestamping Software";
    }
    else if (m_txFlush == PERIOD && m_period.IsZero())
    {
        error.kind = SlipringError::USAGE;
        error.message = "TxFlush Period: SyncAndNotifyQueuePeriod is 0";
        error.help = "SyncAndNotifyQueuePeriod 50us";
    }
    else if (m_portName.empty())
    {
        error.kind = SlipringError::USAGE;
        error.message = "the attribute PortName is empty";
        error.help = "PortName netmap:IF with an interface of `ip link`";
    }
    return error;
}

SlipringError
SlipringNetDevice::CheckSimulator() const
{
    SlipringError error;
    bool isRealtime = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation()) != nullptr;
    if (!isRealtime && !m_port->IsDeterministic() && m_period.IsZero())
    {
        error.kind = SlipringError::SIMULATOR;
        error.message = m_portName + ": ports of the kind " + m_port->GetKind() +
                        " follow the clock, and the simulator does not";
        error.help = "SlipringNetDeviceHelper::EnableRealtime() before the first node is created";
        return error;
    }
    bool isPromiscuous = m_port->GetMode().find("promisc=off") == std::string::npos;
    if (m_promiscuous == REQUIRE && !isPromiscuous)
    {
        error.kind = SlipringError::MACHINE;
        error.message = m_portName + ": the port receives only frames for this host";
        error.help = "Promiscuous Enable";
    }
    return error;
}

void
SlipringNetDevice::CreateQueues()
{
    uint32_t queues = m_port->GetQueues();
    m_queues.clear();
    m_queues.reserve(queues);
    for (uint32_t i = 0; i < queues; i++)
    {
        m_queues.emplace_back(m_port->Get(), i, m_port->IsShared());
    }
    m_stats.resize(std::max<std::size_t>(m_stats.size(), queues));
    m_nextRx = 0;
    m_ended = false;
    // A null port always has a frame. Without a period, it would deliver frames without end at one
    // simulated instant, so the device does not receive then.
    m_receives = m_port->GetKind() != "null" || !m_period.IsZero();
    if (m_port->GetMtu() > 0 && m_port->GetMtu() < GetMtu())
    {
        SetMtu(static_cast<uint16_t>(m_port->GetMtu()));
    }
}

void
SlipringNetDevice::StartPort()
{
    NS_LOG_FUNCTION(this);
    if (m_running)
    {
        return;
    }
    SlipringError error = Open();
    if (error)
    {
        NS_LOG_ERROR("the device stays down: " << error);
        return;
    }
    m_running = true;
    m_isRealtime = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation()) != nullptr;
    if (m_isRealtime)
    {
        m_interface = SlipringInterfaceOf(m_portName, m_port->GetKind());
        m_linkFd = m_interface.empty() ? -1 : SlipringOpenLinkMonitor();
        auto guard = m_guard;
        uint32_t context = GetNode() ? GetNode()->GetId() : Simulator::NO_CONTEXT;
        m_poller = std::make_unique<SlipringPoller>(
            slipring_port_fd(m_port->Get()),
            m_linkFd,
            [guard, context](SlipringPoller::Reason reason) {
                auto function = reason == SlipringPoller::LINK ? &SlipringNetDevice::ObserveLink
                                                               : &SlipringNetDevice::Service;
                Simulator::ScheduleWithContext(context, Time(0), new Event(guard, function));
            });
    }
    else
    {
        JoinPeers();
    }
    m_interface.empty() ? SetLink(true) : ObserveLink();
    SchedulePeriod();
    ScheduleService();
    StopFull();
    ResumeLimited();
}

void
SlipringNetDevice::StopPort()
{
    NS_LOG_FUNCTION(this);
    Simulator::Cancel(m_startDevice);
    Simulator::Cancel(m_stopDevice);
    if (m_running)
    {
        EndWait();
        m_poller.reset();
        m_running = false;
        if (m_linkFd >= 0)
        {
            close(m_linkFd);
            m_linkFd = -1;
        }
        if (m_isRealtime)
        {
            slipring_drain(m_port->Get(), m_stopDrainTime.GetNanoSeconds());
        }
        DropUnread();
        KickPeers();
        SetLink(false);
    }
    ClosePort();
}

void
SlipringNetDevice::ClosePort()
{
    if (m_running)
    {
        StopPort();
    }
    if (m_port)
    {
        CountUnfinished();
        NotifySent();
        LeavePeers();
        m_queues.clear();
        m_port.reset();
        m_switch.reset();
        UpdateInflight();
    }
}

void
SlipringNetDevice::CountUnfinished()
{
    for (uint32_t i = 0; i < m_queues.size(); i++)
    {
        Queue& queue = m_queues[i];
        SlipringTxQueue::Completed completed;
        queue.tx.Sync(completed);
        m_stats[i].txPackets += completed.frames;
        m_stats[i].txBytes += completed.bytes;
        m_stats[i].txUnfinished += queue.tx.GetInflightFrames();
        m_stats[i].portDrops += m_port->GetDrops(i);
        // After a restart, the limits count only new frames, and the queue may send.
        ResetLimits(i);
    }
}

void
SlipringNetDevice::DropUnread()
{
    SlipringRxQueue::Frame frame;
    for (uint32_t i = 0; i < m_queues.size(); i++)
    {
        m_queues[i].rx.Sync();
        while (m_queues[i].rx.Take(frame))
        {
            m_stats[i].rxFrames++;
            DropReceived(i, SlipringDropReason::RX_LOST_AT_STOP, frame.data, frame.length);
        }
        m_queues[i].rx.Sync();
    }
}

void
SlipringNetDevice::PortFailed(int status)
{
    m_lastError = SlipringError::FromLibrary(status);
    NS_LOG_ERROR("the port is lost: " << m_lastError);
    ClosePort();
}

void
SlipringNetDevice::SetLink(bool up)
{
    if (up == m_linkUp)
    {
        return;
    }
    m_linkUp = up;
    m_linkTrace(up);
    m_linkChanges();
}

void
SlipringNetDevice::ObserveLink()
{
    if (m_running && !m_interface.empty())
    {
        SetLink(SlipringInterfaceIsUp(m_interface));
    }
}

void
SlipringNetDevice::ObserveLag()
{
    auto realtime = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
    if (!realtime)
    {
        return;
    }
    Time lag = realtime->RealtimeNow() - Simulator::Now();
    m_lagTrace(lag);
    if (!m_maxLag.IsZero() && lag > m_maxLag && !m_warnedLag)
    {
        m_warnedLag = true;
        NS_LOG_WARN(m_portName << ": the simulation is " << lag.As(Time::MS)
                               << " behind the clock: it is slower than its traffic");
    }
}

bool
SlipringNetDevice::IsLinkUp() const
{
    return m_linkUp;
}

void
SlipringNetDevice::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkChanges.ConnectWithoutContext(callback);
}

bool
SlipringNetDevice::SetMtu(const uint16_t mtu)
{
    if (m_port && m_port->GetMtu() > 0 && mtu > m_port->GetMtu())
    {
        return false;
    }
    return FdNetDevice::SetMtu(mtu);
}

const SlipringError&
SlipringNetDevice::GetLastError() const
{
    return m_lastError;
}

bool
SlipringNetDevice::IsRunning() const
{
    return m_running;
}

bool
SlipringNetDevice::IsDeterministic() const
{
    return m_running && !m_isRealtime && m_port->IsDeterministic();
}

uint32_t
SlipringNetDevice::GetNTxQueues() const
{
    uint32_t queues = static_cast<uint32_t>(m_queues.size());
    return m_maxTxQueues > 0 ? std::min(queues, m_maxTxQueues) : queues;
}

std::string
SlipringNetDevice::GetPortMode() const
{
    return m_port ? m_port->GetMode() : "";
}

SlipringQueueStats
SlipringNetDevice::GetStats(uint32_t queue) const
{
    SlipringQueueStats stats;
    if (queue < m_stats.size())
    {
        stats = m_stats[queue];
        stats.portDrops += m_port && queue < m_queues.size() ? m_port->GetDrops(queue) : 0;
    }
    return stats;
}

SlipringQueueStats
SlipringNetDevice::GetStats() const
{
    SlipringQueueStats sum;
    for (uint32_t i = 0; i < m_stats.size(); i++)
    {
        sum += GetStats(i);
    }
    return sum;
}

uint64_t
SlipringNetDevice::GetInflightBytes(uint32_t queue) const
{
    return queue < m_queues.size() ? m_queues[queue].tx.GetInflightBytes() : 0;
}

uint64_t
SlipringNetDevice::GetInflightFrames(uint32_t queue) const
{
    return queue < m_queues.size() ? m_queues[queue].tx.GetInflightFrames() : 0;
}

void
SlipringNetDevice::PrintStats(Ptr<OutputStreamWrapper> stream) const
{
    std::ostream& os = *stream->GetStream();
    os << m_portName << ": " << (m_port ? m_port->GetMode() : "closed") << std::endl;
    for (uint32_t i = 0; i < m_stats.size(); i++)
    {
        os << m_portName << " queue=" << i << " " << GetStats(i)
           << " in_flight=" << GetInflightFrames(i) << std::endl;
    }
}

} // namespace ns3
