// SPDX-License-Identifier: GPL-2.0-only
//
// What the four examples fd-netmap-emu-* share: options, the device, ping, samples, the end.
// slipring-federation uses a part of it.

#ifndef FD_NETMAP_EMU_H
#define FD_NETMAP_EMU_H

#include "fd-netmap-emu-discard.h"
#include "fd-netmap-emu-wire.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/fd-net-device-module.h"
#include "ns3/internet-apps-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/slipring-net-device-helper.h"
#include "ns3/slipring-net-device.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace emu
{

using namespace ns3;

/// \return the CPU time that this process has used, in s
inline double
CpuSeconds()
{
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/// Set by SIGINT and SIGTERM.
inline std::atomic<bool> g_interrupted{false};

/// After a signal, ends the simulation within 100 ms of simulated time, so that captures are
/// complete. An event from another thread would come too late for a simulator that is behind the
/// clock: it would have the time of the clock.
inline void
StopIfInterrupted()
{
    if (g_interrupted)
    {
        std::cout << "interrupted at " << Simulator::Now().As(Time::S) << std::endl;
        Simulator::Stop();
        return;
    }
    Simulator::Schedule(MilliSeconds(100), &StopIfInterrupted);
}

/// Runs the simulation. SIGINT and SIGTERM end it as the end of its duration does; a second signal
/// ends the program.
inline void
RunUntilSignal()
{
    for (int signal : {SIGINT, SIGTERM})
    {
        std::signal(signal, [](int number) {
            g_interrupted = true;
            std::signal(number, SIG_DFL);
        });
    }
    Simulator::Schedule(Time(0), &StopIfInterrupted);
    Simulator::Run();
}

/// Options of all four examples. The name is not Options, because ns-3.48 has a type of that name.
struct ExampleOptions
{
    std::string deviceName{"veth0"};
    bool netmapMode{true};
    bool discard{false};
    bool bql{false};
    uint32_t bqlMax{1514};
    bool ping{true};
    bool pcap{false};
    double duration{10};
    double interval{1};
    std::string qdisc{"PfifoFast"};
    uint32_t ringSlots{0};
    std::string wire{"0bps"};

    void AddTo(CommandLine& line)
    {
        line.AddValue("deviceName", "interface (veth0), or any port of slipring (packet:veth0)", deviceName);
        line.AddValue("netmapMode", "true: SlipringNetDevice; false: FdNetDevice on a raw socket", netmapMode);
        line.AddValue("bql", "byte queue limits on the tx ring; only with netmapMode", bql);
        line.AddValue("bqlMax", "bytes; with --bql, the ring holds at most a frame more; 0: only ns-3 limits the limit", bqlMax);
        line.AddValue("ping", "ping the server meanwhile", ping);
        line.AddValue("pcap", "write captures fd-netmap-emu-*.pcap", pcap);
        line.AddValue("duration", "s", duration);
        line.AddValue("interval", "s between samples", interval);
        line.AddValue("qdisc", "root queue disc: PfifoFast, FqCoDel, CoDel, Pie, Red", qdisc);
        line.AddValue("ringSlots", "slots of the tx ring; 0: the port's default", ringSlots);
        line.AddValue("wire", "rate of a wire behind the device, which veth lacks; 0bps: none", wire);
    }
};

/// Prints the error of a result, if there is one. \return the result's devices
inline NetDeviceContainer
OrPrint(const std::string& name, const SlipringInstallResult& result)
{
    if (!result)
    {
        std::cerr << name << ": " << result.error << std::endl;
    }
    return result.devices;
}

/// Installs the stock device. \return no device after an error, which is printed
inline NetDeviceContainer
InstallRaw(const ExampleOptions& options, Ptr<Node> node, const std::string& name)
{
    if (options.bql)
    {
        std::cerr << "--bql has no effect: a raw socket has no queue to limit" << std::endl;
    }
    SlipringEmuFdNetDeviceHelper helper;
    helper.SetDeviceName(name);
    return OrPrint(name, helper.TryInstall(node));
}

/// \return the port name for \p name, which is a port name already, or the name of an interface
inline std::string
PortName(const std::string& name)
{
    return name.find_first_of(":{}") == std::string::npos ? "netmap:" + name : name;
}

/// Installs our device. \return no device after an error, which is printed
inline NetDeviceContainer
InstallSlipring(const ExampleOptions& options, Ptr<Node> node, const std::string& name)
{
    std::string port = PortName(name);
    const double rate = DataRate(options.wire).GetBitRate();
    if (rate > 0)
    {
        static PacedWire wire;
        if (!wire.Start("wire}1", port, rate))
        {
            std::cerr << name << ": " << wire.Error() << std::endl;
            return NetDeviceContainer();
        }
        port = "wire{1";
    }
    SlipringNetDeviceHelper helper;
    helper.SetAttribute("PortName", StringValue(port));
    if (options.ringSlots != 0)
    {
        helper.SetAttribute("RingSlots", UintegerValue(options.ringSlots));
    }
    return OrPrint(name, helper.TryInstall(node));
}

/// Installs the device that the options ask for. \return no device after an error, which is printed
inline NetDeviceContainer
InstallDevice(const ExampleOptions& options, Ptr<Node> node, const std::string& name)
{
    if (options.discard)
    {
        NetDeviceContainer devices(CreateObject<DiscardingDevice>());
        node->AddDevice(devices.Get(0));
        return devices;
    }
    return options.netmapMode ? InstallSlipring(options, node, name) : InstallRaw(options, node, name);
}

/// \return the device of a node, with an address, queue disc and limits; none after an error
inline Ptr<NetDevice>
Install(const ExampleOptions& options,
        Ptr<Node> node,
        const std::string& name,
        const std::string& address)
{
    NetDeviceContainer devices = InstallDevice(options, node, name);
    if (devices.GetN() == 0)
    {
        return nullptr;
    }
    devices.Get(0)->SetAttribute("Address", Mac48AddressValue(Mac48Address::Allocate()));
    if (!node->GetObject<Ipv4>())
    {
        InternetStackHelper().Install(node);
    }
    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::" + options.qdisc + "QueueDisc");
    if (options.bql && options.netmapMode)
    {
        // If the simulator is late, many frames leave the ring together, so the limit grows. It
        // shrinks only after 1 s. A maximum keeps the backlog in the queue disc meanwhile.
        UintegerValue most(options.bqlMax);
        options.bqlMax > 0 ? control.SetQueueLimits("ns3::DynamicQueueLimits", "MaxLimit", most)
                           : control.SetQueueLimits("ns3::DynamicQueueLimits");
    }
    control.Install(devices.Get(0));
    auto ipv4 = node->GetObject<Ipv4>();
    const uint32_t interface = ipv4->AddInterface(devices.Get(0));
    ipv4->AddAddress(interface, Ipv4InterfaceAddress(address.c_str(), "255.255.255.0"));
    ipv4->SetUp(interface);
    if (options.pcap)
    {
        FdNetDeviceHelper().EnablePcap("fd-netmap-emu-" + name + ".pcap", devices.Get(0), true, true);
    }
    return devices.Get(0);
}

/// Collects round-trip times, and prints each.
class Pinger
{
  public:
    /// Pings \p remote from \p node.
    void Start(Ptr<Node> node, const std::string& remote, Time interval, Time stop)
    {
        // If the type were given only by its name, the linker would leave out its library.
        ObjectFactory factory;
#if SLIPRING_NS3_MINOR >= 38
        factory.SetTypeId(Ping::GetTypeId());
        factory.Set("Destination", AddressValue(Ipv4Address(remote.c_str())));
        factory.Set("VerboseMode", StringValue("Silent"));
#else
        factory.SetTypeId(V4Ping::GetTypeId());
        factory.Set("Remote", Ipv4AddressValue(remote.c_str()));
#endif
        factory.Set("Interval", TimeValue(interval));
        auto application = factory.Create<Application>();
        application->SetStartTime(MilliSeconds(100));
        application->SetStopTime(stop);
        node->AddApplication(application);
        application->TraceConnectWithoutContext("Rtt", MakeCallback(&Pinger::Reply, this));
        m_remote = remote;
        m_interval = interval;
        m_stop = stop;
        Simulator::Schedule(MilliSeconds(100), &Pinger::NoteClock, this);
        const int64_t ns = interval.GetNanoSeconds();
        m_expected = ((stop - MilliSeconds(100)).GetNanoSeconds() + ns - 1) / ns;
    }

    /// Prints the distribution, if anything was pinged.
    void Print()
    {
        if (m_remote.empty())
        {
            return;
        }
        std::cout << "ping " << m_remote << ": " << m_expected << " due, " << m_rtts.size()
                  << " answered";
        PrintQuantiles("rtt", m_rtts);
        PrintQuantiles("without the simulator's lag", m_clockRtts);
        std::cout << std::endl;
    }

  private:
    /// Notes the clock before the ping that is due now: the simulator may be late.
    void NoteClock()
    {
        m_sent[Simulator::Now()] = std::chrono::steady_clock::now();
        if (Simulator::Now() + m_interval < m_stop)
        {
            Simulator::Schedule(m_interval, &Pinger::NoteClock, this);
        }
    }

#if SLIPRING_NS3_MINOR >= 38
    void Reply(uint16_t, Time rtt)
#else
    void Reply(Time rtt)
#endif
    {
        m_rtts.push_back(rtt.GetNanoSeconds() / 1e6);
        std::cout << "reply " << m_rtts.size() << " from " << m_remote << ": " << m_rtts.back()
                  << " ms" << std::endl;
        auto sent = m_sent.find(Simulator::Now() - rtt);
        if (sent != m_sent.end())
        {
            const std::chrono::duration<double, std::milli> elapsed =
                std::chrono::steady_clock::now() - sent->second;
            m_clockRtts.push_back(elapsed.count());
            m_sent.erase(m_sent.begin(), ++sent);
        }
    }

    static void PrintQuantiles(const char* what, std::vector<double>& values)
    {
        if (values.empty())
        {
            return;
        }
        std::sort(values.begin(), values.end());
        const auto quantile = [&](double share) {
            return values[static_cast<std::size_t>(share * (values.size() - 1))];
        };
        std::cout << ", " << what << " min/median/p99/max = " << quantile(0) << "/" << quantile(0.5)
                  << "/" << quantile(0.99) << "/" << quantile(1) << " ms";
    }

    std::string m_remote;
    Time m_interval;
    Time m_stop;
    uint64_t m_expected{0};
    std::vector<double> m_rtts;      //!< in simulated time, in ms
    std::vector<double> m_clockRtts; //!< by the clock, in ms
    /// The clock at each ping without a reply, by simulated time
    std::map<Time, std::chrono::steady_clock::time_point> m_sent;
};

/// A value over time: the latest, and the largest since the last sample.
struct Gauge
{
    uint32_t now{0};
    uint32_t max{0};

    void Set(uint32_t, uint32_t value)
    {
        now = value;
        max = std::max(max, value);
    }

    /// \return "now (max)"; starts a new interval
    std::string Sample()
    {
        std::string text = std::to_string(now) + " (max " + std::to_string(max) + ")";
        max = now;
        return text;
    }
};

/// Prints samples of queue disc, tx ring, throughput and the simulator's lag.
class Sampler
{
  public:
    /// Samples \p device every \p interval.
    void Start(Ptr<NetDevice> device, Time interval)
    {
        m_interval = interval;
        m_cpuStart = CpuSeconds();
        m_clockStart = std::chrono::steady_clock::now();
        auto control = device->GetNode()->GetObject<TrafficControlLayer>();
        m_qdisc = control->GetRootQueueDiscOnDevice(device);
        if (m_qdisc)
        {
            m_qdisc->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Gauge::Set, &m_backlog));
        }
        m_hasRing = device->TraceConnectWithoutContext("TxInflightBytes", MakeCallback(&Gauge::Set, &m_inflight));
        device->TraceConnectWithoutContext("MacTx", MakeCallback(&Sampler::Sent, this));
        device->TraceConnectWithoutContext("MacTxDrop", MakeCallback(&Sampler::Refused, this));
        device->TraceConnectWithoutContext("MacRx", MakeCallback(&Sampler::Received, this));
        Simulator::Schedule(interval, &Sampler::Sample, this);
    }

    /// Prints the totals.
    void Print() const
    {
        const double seconds = std::max(Simulator::Now().GetSeconds(), 1e-9);
        std::cout << "sent " << m_sent << " frames, " << m_sentBytes * 8 / seconds / 1e6
                  << " Mbit/s; refused by the device " << m_refused << "; dropped by the queue disc "
                  << (m_qdisc ? m_qdisc->GetStats().nTotalDroppedPackets : 0) << "; received "
                  << m_received << " frames; largest lag of the simulator "
                  << m_maxLag.As(Time::MS) << std::endl;
        const std::chrono::duration<double> clock = std::chrono::steady_clock::now() - m_clockStart;
        std::cout << "cpu " << CpuSeconds() - m_cpuStart << " s in " << clock.count() << " s"
                  << std::endl;
    }

  private:
    void Sent(Ptr<const Packet> packet)
    {
        m_sent++;
        m_sentBytes += packet->GetSize();
    }

    void Refused(Ptr<const Packet> packet)
    {
        // MacTx counted the refused packet as sent, so it is subtracted.
        m_refused++;
        m_sent--;
        m_sentBytes -= packet->GetSize();
    }

    void Received(Ptr<const Packet>)
    {
        m_received++;
    }

    void Sample()
    {
        Time lag;
        if (auto real = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation()))
        {
            lag = real->RealtimeNow() - Simulator::Now();
            m_maxLag = Max(m_maxLag, lag);
        }
        const double mbits = (m_sentBytes - m_lastBytes) * 8 / m_interval.GetSeconds() / 1e6;
        m_lastBytes = m_sentBytes;
        std::cout << "at " << Simulator::Now().As(Time::S) << ": sent " << mbits
                  << " Mbit/s, backlog " << m_backlog.Sample() << " packets, in flight "
                  << (m_hasRing ? m_inflight.Sample() + " bytes" : "unknown") << ", lag "
                  << lag.As(Time::MS) << std::endl;
        Simulator::Schedule(m_interval, &Sampler::Sample, this);
    }

    Time m_interval;
    Time m_maxLag;
    double m_cpuStart{0};
    std::chrono::steady_clock::time_point m_clockStart;
    Ptr<QueueDisc> m_qdisc;
    Gauge m_backlog;
    Gauge m_inflight;
    bool m_hasRing{false};
    uint64_t m_sent{0};
    uint64_t m_refused{0};
    uint64_t m_received{0};
    uint64_t m_sentBytes{0};
    uint64_t m_lastBytes{0};
};

/// Prints mode and counters of our device; nothing for another one.
inline void
PrintDevice(Ptr<NetDevice> device)
{
    if (auto ours = DynamicCast<SlipringNetDevice>(device))
    {
        ours->PrintStats(Create<OutputStreamWrapper>(&std::cout));
    }
}

} // namespace emu

#endif // FD_NETMAP_EMU_H
