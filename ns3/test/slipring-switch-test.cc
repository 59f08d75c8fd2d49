/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests of switches under the default simulator: no daemon, thread, clock or privilege.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/mac48-address.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/udp-echo-helper.h"
#include "ns3/uinteger.h"

#include <filesystem>
#include <sstream>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// Packets that each client sends
constexpr uint32_t PINGS = 50;

/// Returns the number of threads of this process
std::size_t
CountThreads()
{
    std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(tasks, std::filesystem::directory_iterator());
}

/// Returns the hardware address of a station
Mac48Address
Station(uint32_t number)
{
    uint8_t bytes[] = {2, 0, 0, 0, 1, static_cast<uint8_t>(number)};
    Mac48Address address;
    address.CopyFrom(bytes);
    return address;
}

/// Devices at the ports of a switch, and the frames that they send and receive
struct SwitchedLan
{
    NodeContainer nodes;        //!< a node at each port
    NetDeviceContainer devices; //!< its device
    /// Every frame that a device sends or receives: time, device, length and bytes
    std::ostringstream trace;
    std::vector<uint32_t> received; //!< frames that each device has received, for any station

    /**
     * \param count number of devices
     * \param name name of the switch
     * \param slots slots of each ring; 0: the default
     */
    explicit SwitchedLan(uint32_t count, const std::string& name = "vale0", uint32_t slots = 0)
        : nodes(count),
          received(count, 0)
    {
        SlipringNetDeviceHelper helper;
        helper.SetAttribute("RingSlots", UintegerValue(slots));
        devices = helper.InstallSwitch(nodes, name);
        for (uint32_t i = 0; i < count; i++)
        {
            devices.Get(i)->SetAddress(Station(i));
            devices.Get(i)->TraceConnect("PromiscSniffer",
                                         std::to_string(i),
                                         MakeCallback(&SwitchedLan::Note, this));
        }
    }

    /// Records a packet that a device sends or receives; the device's sniffer calls this
    void Note(std::string device, Ptr<const Packet> packet)
    {
        std::vector<uint8_t> bytes(packet->GetSize());
        packet->CopyData(bytes.data(), bytes.size());
        trace << Simulator::Now().GetNanoSeconds() << " " << device << " " << bytes.size();
        for (uint8_t byte : bytes)
        {
            trace << " " << +byte;
        }
        trace << "\n";
        Mac48Address source;
        source.CopyFrom(bytes.data() + 6);
        uint32_t number = static_cast<uint32_t>(std::stoul(device));
        received[number] += source == Station(number) ? 0 : 1;
    }

    /**
     * \param number number of a device
     * \return the device
     */
    Ptr<SlipringNetDevice> Get(uint32_t number) const
    {
        return DynamicCast<SlipringNetDevice>(devices.Get(number));
    }

    /**
     * Sends a frame.
     * \param from number of the device
     * \param to number of the station
     */
    void Send(uint32_t from, uint32_t to) const
    {
        devices.Get(from)->Send(Create<Packet>(100), Station(to), 0x88b5);
    }
};

/// The result of a simulation of echoes
struct EchoResult
{
    std::string trace;       //!< every frame
    uint32_t answers{0};     //!< answers to the clients
    bool deterministic{true}; //!< whether all devices say so
    std::size_t threads{0};  //!< threads of the process during the simulation
    SlipringQueueStats stats; //!< sum over all devices
};

/// Simulates two clients that send to a server over one switch
EchoResult
RunEchoes()
{
    EchoResult result;
    SwitchedLan lan(3);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(lan.nodes);
    // ns-3 numbers the random streams of all simulations of a process consecutively, so the streams
    // get fixed numbers here.
    stack.AssignStreams(lan.nodes, 1000);
    Ipv4AddressHelper addresses("10.7.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(lan.devices);
    UdpEchoServerHelper(7).Install(lan.nodes.Get(1)).Start(Seconds(0));
    UdpEchoClientHelper client(interfaces.GetAddress(1), 7);
    client.SetAttribute("MaxPackets", UintegerValue(PINGS));
    // Packets are sent less often than an address is resolved, because only few of them may wait
    // for the answer.
    client.SetAttribute("Interval", TimeValue(MicroSeconds(17777)));
    client.SetAttribute("PacketSize", UintegerValue(500));
    std::function<void(Ptr<const Packet>)> answer = [&](Ptr<const Packet>) { result.answers++; };
    for (uint32_t node : {0, 2})
    {
        ApplicationContainer application = client.Install(lan.nodes.Get(node));
        application.Start(MilliSeconds(10));
        application.Get(0)->TraceConnectWithoutContext("Rx",
                                                       Callback<void, Ptr<const Packet>>(answer));
    }
    Simulator::Schedule(MilliSeconds(20), [&]() {
        result.threads = CountThreads();
        for (uint32_t i = 0; i < 3; i++)
        {
            result.deterministic = result.deterministic && lan.Get(i)->IsDeterministic();
        }
    });
    Simulator::Stop(Seconds(1));
    Simulator::Run();
    for (uint32_t i = 0; i < 3; i++)
    {
        result.stats += lan.Get(i)->GetStats();
    }
    result.trace = lan.trace.str();
    Simulator::Destroy();
    return result;
}

void
EchoesAreEqual(FunctionTest& test)
{
    std::size_t threads = CountThreads();
    EchoResult first = RunEchoes();
    test.Equal(first.answers, 2 * PINGS, "answers");
    test.Equal(first.deterministic, true, "events alone serve the ports");
    test.Equal(first.threads, threads, "threads during the simulation");
    test.Equal(first.stats.portDrops, 0, "frames that the switch dropped for full rings");
    test.AtLeast<std::size_t>(first.trace.size(), 4 * PINGS * 500, "length of the trace");
    EchoResult second = RunEchoes();
    test.Equal(second.answers, 2 * PINGS, "answers of the second run");
    test.Equal(first.trace == second.trace, true, "the traces of two runs");
}

void
FloodsAndLearns(FunctionTest& test)
{
    SwitchedLan lan(3);
    Simulator::Schedule(Seconds(1), [&]() { lan.Send(0, 1); });
    Simulator::Schedule(Seconds(2), [&]() {
        test.Equal(lan.received == std::vector<uint32_t>{0, 1, 1}, true, "flooded");
        lan.Send(1, 0);
    });
    Simulator::Schedule(Seconds(3), [&]() {
        test.Equal(lan.received == std::vector<uint32_t>{1, 1, 1}, true, "to the sender alone");
        lan.Send(0, 1);
    });
    // The switch forgets addresses after 300 s of the simulation.
    Simulator::Schedule(Seconds(400), [&]() {
        test.Equal(lan.received == std::vector<uint32_t>{1, 2, 1}, true, "to the answerer alone");
        lan.Send(0, 1);
    });
    Simulator::Run();
    test.Equal(lan.received == std::vector<uint32_t>{1, 3, 2}, true, "flooded, after a long time");
}

void
CountsFullRings(FunctionTest& test)
{
    // A burst that the sender's ring takes, and a receiver with a quarter of the slots.
    NodeContainer nodes(2);
    SlipringNetDeviceHelper helper("vale3:a");
    helper.SetAttribute("RingSlots", UintegerValue(256));
    auto sender = DynamicCast<SlipringNetDevice>(helper.Install(nodes.Get(0)).Get(0));
    helper.SetPortName("vale3:b");
    helper.SetAttribute("RingSlots", UintegerValue(64));
    auto receiver = DynamicCast<SlipringNetDevice>(helper.Install(nodes.Get(1)).Get(0));
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 200; i++)
        {
            test.Equal(SendPayload(sender, MakeFrame(60, i)), true, "frame " + std::to_string(i));
        }
    });
    Simulator::Run();
    test.Equal(sender->GetStats().txPackets, 200, "frames that have left the sender");
    test.Equal(receiver->GetStats().rxPackets, 63, "frames for which the ring had room");
    test.Equal(receiver->GetStats().portDrops, 200 - 63, "all others");
    std::ostringstream text;
    receiver->PrintStats(Create<OutputStreamWrapper>(&text));
    test.Equal(text.str().find("port_drops=137") != std::string::npos, true, text.str());
}

void
KeepsBurstsTogether(FunctionTest& test)
{
    SwitchedLan lan(3);
    std::vector<uint32_t> bursts;
    lan.devices.Get(2)->TraceConnectWithoutContext(
        "RxBurst",
        Callback<void, uint32_t, uint32_t>(
            [&](uint32_t, uint32_t frames) { bursts.push_back(frames); }));
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 10; i++)
        {
            lan.Send(0, 2);
            lan.Send(1, 2);
        }
    });
    Simulator::Run();
    test.Equal(bursts == std::vector<uint32_t>{20}, true, "one event for the frames of an instant");
}

void
RestartsAPort(FunctionTest& test)
{
    SwitchedLan lan(3);
    lan.Get(1)->Stop(Seconds(2));
    lan.Get(1)->Start(Seconds(0));
    for (double time : {1.0, 3.0, 5.0})
    {
        Simulator::Schedule(Seconds(time), [&]() { lan.Send(0, 1); });
    }
    Simulator::Schedule(Seconds(4), [&]() { lan.Get(1)->Start(Seconds(0)); });
    Simulator::Run();
    test.Equal(lan.received == std::vector<uint32_t>{0, 2, 3}, true, "all but the frame meanwhile");
    test.Equal(lan.Get(1)->GetStats().rxFrames, 2, "frames of the port that was started again");
}

void
SendsTheFramesOfAStoppedPort(FunctionTest& test)
{
    SwitchedLan lan(2);
    Simulator::Schedule(Seconds(1), [&]() {
        lan.Send(0, 1);
        lan.Get(0)->Stop(Seconds(0));
    });
    Simulator::Run();
    test.Equal(lan.received[1], 1, "frames of a device that stops in the same instant");
    SlipringQueueStats stats = lan.Get(0)->GetStats();
    test.Equal(stats.txPackets + stats.txUnfinished, stats.txAccepted, "frames of the sender");
}

void
RefusesNames(FunctionTest& test)
{
    SlipringNetDeviceHelper helper("vale4:a");
    Ptr<Node> node = CreateObject<Node>();
    Ptr<SlipringNetDevice> first = MakeDevice("vale4:a");
    SlipringInstallResult taken = helper.TryInstall(node);
    test.Equal(taken.error.kind, SlipringError::USAGE, "a port that is open already");
    test.Equal(taken.error.message.find("vale4:a is open already") != std::string::npos,
               true,
               taken.error.message);
    helper.SetPortName("vale4:b@conf:slots=3");
    test.Equal(helper.TryInstall(node).error.kind, SlipringError::USAGE, "a ring of 3 slots");
    SlipringInstallResult wrong = helper.TryInstallSwitch(NodeContainer(2), "lan0");
    test.Equal(bool(wrong), false, "a name that is no switch's");
    test.Equal(wrong.error.help.empty(), false, "advice");
    test.Equal(node->GetNDevices(), 0, "devices after errors");
}

/// The suite
class SlipringSwitchTestSuite : public TestSuite
{
  public:
    SlipringSwitchTestSuite()
        : TestSuite("slipring-net-device-switch", SLIPRING_SUITE_UNIT)
    {
        Add("EchoesOfThreeNodesAreTheSameInTwoRuns", EchoesAreEqual);
        Add("AnUnknownStationIsSearchedEverywhereAndAKnownOneIsNot", FloodsAndLearns);
        Add("FramesForAFullRingAreCounted", CountsFullRings);
        Add("OneEventServesTheFramesOfAllSendersOfAnInstant", KeepsBurstsTogether);
        Add("APortThatIsStartedAgainReceives", RestartsAPort);
        Add("APortThatStopsSendsWhatItHas", SendsTheFramesOfAStoppedPort);
        Add("NamesThatCannotBeOpenedAreErrors", RefusesNames);
    }

  private:
    void Add(std::string name, std::function<void(FunctionTest&)> function)
    {
        AddTestCase(new FunctionTest(name, function), SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringSwitchTestSuite g_slipringSwitchTestSuite;

} // namespace
