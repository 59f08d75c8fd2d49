/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests of the deterministic mode: no thread, no clock, no privilege.

#include "slipring-ns3-compat.h"
#include "slipring-tags.h"
#include "slipring-test-util.h"

#include "ns3/config.h"
#include "ns3/global-value.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <map>
#include <slipring.h>
#include <sstream>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// 10000 frames of all lengths cross a pipe in each direction, unchanged and in order
class PipeTest : public TestCase
{
  public:
    PipeTest()
        : TestCase("a pipe carries frames of all lengths in both directions, unchanged and in order")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 10000; //!< frames in each direction
    static constexpr uint32_t LENGTHS = 1455; //!< lengths from 60 to 1514

    /// Sends 100 frames every millisecond.
    void Feed(Ptr<NetDevice> device, uint32_t first, uint32_t seed)
    {
        for (uint32_t i = first; i < first + 100; i++)
        {
            NS_TEST_EXPECT_MSG_EQ(SendPayload(device, MakeFrame(60 + i % LENGTHS, i + seed)),
                                  true,
                                  "frame " << i);
        }
        if (first + 100 < FRAMES)
        {
            Simulator::Schedule(MilliSeconds(1), &PipeTest::Feed, this, device, first + 100, seed);
        }
    }

    void Check(const Received& received, uint32_t seed)
    {
        NS_TEST_ASSERT_MSG_EQ(received.frames.size(), FRAMES, "number of frames");
        for (uint32_t i = 0; i < FRAMES; i++)
        {
            Frame sent = MakeFrame(60 + i % LENGTHS, i + seed);
            Frame payload(sent.begin() + 14, sent.end());
            NS_TEST_ASSERT_MSG_EQ((received.frames[i] == payload), true, "bytes of frame " << i);
        }
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper helper;
        NetDeviceContainer ends =
            helper.InstallPipe(CreateObject<Node>(), CreateObject<Node>(), PipeName());
        Received atFirst;
        Received atSecond;
        atFirst.Connect(ends.Get(0));
        atSecond.Connect(ends.Get(1));
        Simulator::Schedule(MilliSeconds(1), &PipeTest::Feed, this, ends.Get(0), 0, 0);
        Simulator::Schedule(MilliSeconds(1), &PipeTest::Feed, this, ends.Get(1), 0, 77);
        Simulator::Run();
        Check(atSecond, 0);
        Check(atFirst, 77);
        auto device = DynamicCast<SlipringNetDevice>(ends.Get(0));
        NS_TEST_EXPECT_MSG_EQ(device->IsDeterministic(), true, "events alone serve a pipe");
        CheckCounters(device);
        Simulator::Destroy();
    }

    void CheckCounters(Ptr<SlipringNetDevice> device)
    {
        SlipringQueueStats stats = device->GetStats(0);
        NS_TEST_EXPECT_MSG_EQ(stats.txAccepted, FRAMES, "accepted");
        NS_TEST_EXPECT_MSG_EQ(stats.txPackets + device->GetInflightFrames(0), FRAMES, "sent");
        NS_TEST_EXPECT_MSG_EQ(stats.rxPackets, FRAMES, "received");
        NS_TEST_EXPECT_MSG_EQ(stats.rxFrames, FRAMES, "taken");
        for (uint64_t drops : stats.drops)
        {
            NS_TEST_EXPECT_MSG_EQ(drops, 0, "drops");
        }
    }
};

/// All trace sources of FdNetDevice connect by path and fire once for each frame (MacTxDrop: for
/// each frame that is dropped)
class TracesTest : public TestCase
{
  public:
    TracesTest()
        : TestCase("each trace source of FdNetDevice connects by path and fires once a frame")
    {
    }

  private:
    std::map<std::string, uint32_t> m_fired; //!< how often each path fired

    void Count(std::string path, Ptr<const Packet>)
    {
        m_fired[path.substr(path.rfind('/') + 1)]++;
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper helper;
        NodeContainer nodes(2);
        NetDeviceContainer ends = helper.InstallPipe(nodes.Get(0), nodes.Get(1), PipeName());
        Received received;
        received.Connect(ends.Get(1));
        ends.Get(1)->SetPromiscReceiveCallback(MakeCallback(&TracesTest::Promisc, this));
        std::string base = "/NodeList/" + std::to_string(nodes.Get(1)->GetId()) +
                           "/DeviceList/0/$ns3::SlipringNetDevice/";
        std::string sender = "/NodeList/" + std::to_string(nodes.Get(0)->GetId()) +
                             "/DeviceList/0/$ns3::FdNetDevice/";
        for (auto name : {"MacRx", "MacPromiscRx", "Sniffer", "PromiscSniffer"})
        {
            Config::Connect(base + name, MakeCallback(&TracesTest::Count, this));
        }
        for (auto name : {"MacTx", "MacTxDrop"})
        {
            Config::Connect(sender + name, MakeCallback(&TracesTest::Count, this));
        }
        Simulator::Schedule(Seconds(1), [&]() {
            for (uint32_t i = 0; i < 7; i++)
            {
                SendPayload(ends.Get(0), MakeFrame(100, i));
            }
            SendPayload(ends.Get(0), MakeFrame(1515, 0));
        });
        Simulator::Run();
        for (auto name : {"MacTx", "MacRx", "MacPromiscRx", "Sniffer", "PromiscSniffer"})
        {
            NS_TEST_EXPECT_MSG_EQ(m_fired[name], 7, name);
        }
        NS_TEST_EXPECT_MSG_EQ(m_fired["MacTxDrop"], 1, "a packet that is too long");
        NS_TEST_EXPECT_MSG_EQ(m_promisc, 7, "promiscuous callback");
        Simulator::Destroy();
    }

    bool Promisc(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&, const Address&, NetDevice::PacketType)
    {
        m_promisc++;
        return true;
    }

    uint32_t m_promisc{0}; //!< promiscuous deliveries
};

/// One event receives up to RxBurst frames, and one tx sync sends all frames of an instant
class BatchTest : public TestCase
{
  public:
    BatchTest()
        : TestCase("one event serves a burst, and one tx sync the frames of an instant")
    {
    }

  private:
    std::vector<uint32_t> m_bursts; //!< frames of each burst
    std::vector<uint32_t> m_syncs;  //!< frames of each tx sync

    void Burst(uint32_t, uint32_t frames)
    {
        m_bursts.push_back(frames);
    }

    void Sync(uint32_t, uint32_t frames)
    {
        m_syncs.push_back(frames);
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper helper;
        helper.SetAttribute("RxBurst", UintegerValue(64));
        helper.SetAttribute("TxBurst", UintegerValue(1000));
        NetDeviceContainer ends =
            helper.InstallPipe(CreateObject<Node>(), CreateObject<Node>(), PipeName());
        ends.Get(0)->TraceConnectWithoutContext("TxSync", MakeCallback(&BatchTest::Sync, this));
        ends.Get(1)->TraceConnectWithoutContext("RxBurst", MakeCallback(&BatchTest::Burst, this));
        Simulator::Schedule(Seconds(1), [&]() {
            for (uint32_t i = 0; i < 150; i++)
            {
                SendPayload(ends.Get(0), MakeFrame(60, i));
            }
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ((m_syncs == std::vector<uint32_t>{150}), true, "one sync");
        NS_TEST_EXPECT_MSG_EQ((m_bursts == std::vector<uint32_t>{64, 64, 22}), true, "bursts");
        Simulator::Destroy();
    }
};

/// TxFlush decides when frames leave
class FlushTest : public TestCase
{
  public:
    FlushTest()
        : TestCase("TxFlush Immediate sends each frame at once, Period at the period")
    {
    }

  private:
    void DoRun() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        SlipringNetDeviceHelper helper(pipe.second);
        helper.SetAttribute("TxFlush", StringValue("Immediate"));
        auto device = DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
        Simulator::Schedule(Seconds(1), [&]() {
            SendPayload(device, MakeFrame(60, 1));
            NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 1, "sent at once");
        });
        Simulator::Run();
        Simulator::Destroy();
        Period();
    }

    void Period()
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        SlipringNetDeviceHelper helper(pipe.second);
        helper.SetAttribute("TxFlush", StringValue("Period"));
        helper.SetAttribute("SyncAndNotifyQueuePeriod", TimeValue(MilliSeconds(10)));
        auto device = DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
        Simulator::Schedule(MilliSeconds(15), [&]() { SendPayload(device, MakeFrame(60, 1)); });
        Simulator::Schedule(MilliSeconds(19), [&]() {
            NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 0, "not before the period");
        });
        Simulator::Schedule(MilliSeconds(21), [&]() {
            NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 1, "after the period");
        });
        Simulator::Stop(MilliSeconds(30));
        Simulator::Run();
        Simulator::Destroy();
    }
};

/// The bursts of one instant share the event that sends the frames which are left
class FlushEventTest : public TestCase
{
  public:
    FlushEventTest()
        : TestCase("BurstsOfOneInstantShareTheEventThatFlushesTheRest")
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t BURSTS = 100;
        constexpr uint32_t FRAMES = 8 * BURSTS + 1;
        PipeEnds pipe;
        RawPort peer(pipe.first);
        SlipringNetDeviceHelper helper(pipe.second);
        helper.SetAttribute("TxBurst", UintegerValue(8));
        Ptr<NetDevice> device = helper.Install(CreateObject<Node>()).Get(0);
        uint32_t received = 0;
        Simulator::Schedule(Seconds(1), [&]() {
            for (uint32_t i = 0; i < FRAMES; i++)
            {
                SendPayload(device, MakeFrame(60, i));
                received += peer.ReceiveAll();
            }
            NS_TEST_EXPECT_MSG_EQ(received, FRAMES - 1, "frames of whole bursts");
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 1, "the frame that was left");
        NS_TEST_EXPECT_MSG_LT(Simulator::GetEventCount(), BURSTS, "events");
        Simulator::Destroy();
    }
};

/// The counters of the device equal those of libslipring at the other end, and are printed
class CountersTest : public TestCase
{
  public:
    CountersTest()
        : TestCase("the counters of the device are those of the core, and are printed")
    {
    }

  private:
    void DoRun() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        Simulator::Schedule(Seconds(1), [&]() {
            for (uint32_t i = 0; i < 5; i++)
            {
                SendPayload(device, MakeFrame(100 + i, i));
                peer.Send(MakeFrame(200 + i, i));
            }
        });
        // ns-3 asserts that a node receives in events of its own.
        Simulator::ScheduleWithContext(device->GetNode()->GetId(), Seconds(2), [&]() {
            NS_TEST_EXPECT_MSG_EQ(peer.ReceiveAll(), 5, "received by the peer");
            device->Service();
            struct slipring_stats stats;
            stats.size = sizeof(stats);
            slipring_tx_sync(peer.Get(), 0);
            ::slipring_stats(peer.Get(), SLIPRING_ALL_QUEUES, &stats);
            SlipringQueueStats own = device->GetStats();
            NS_TEST_EXPECT_MSG_EQ(own.txPackets, stats.rx_packets, "frames sent");
            NS_TEST_EXPECT_MSG_EQ(own.txBytes, stats.rx_bytes, "bytes sent");
            NS_TEST_EXPECT_MSG_EQ(own.rxPackets, stats.tx_packets, "frames received");
            NS_TEST_EXPECT_MSG_EQ(own.rxBytes, stats.tx_bytes, "bytes received");
            NS_TEST_EXPECT_MSG_EQ(device->GetInflightBytes(0), 0, "bytes in flight");
        });
        Simulator::Stop(Seconds(3));
        Simulator::Run();
        std::ostringstream text;
        device->PrintStats(Create<OutputStreamWrapper>(&text));
        NS_TEST_EXPECT_MSG_NE(text.str().find("tx_packets=5 tx_bytes=510"),
                              std::string::npos,
                              text.str());
        Simulator::Destroy();
    }
};

/// A tx ring that is never emptied
class StallTest : public TestCase
{
  public:
    StallTest()
        : TestCase("a tx ring that nobody empties raises a trace and a counter, once")
    {
    }

  private:
    uint32_t m_stalls{0}; //!< how often the trace fired

    void Stalled(uint32_t)
    {
        m_stalls++;
    }

    void DoRun() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
        device->TraceConnectWithoutContext("TxStall", MakeCallback(&StallTest::Stalled, this));
        Simulator::Schedule(Seconds(1), [&]() { SendPayload(device, MakeFrame(60, 1)); });
        Simulator::Schedule(Seconds(10), [&]() {
            NS_TEST_EXPECT_MSG_EQ(m_stalls, 1, "once, though nothing was sent for 9 s");
            peer.ReceiveAll();
            device->Service();
            SendPayload(device, MakeFrame(60, 2));
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_stalls, 2, "again, after frames have left");
        NS_TEST_EXPECT_MSG_EQ(device->GetStats().stalls, 2, "counter");
        Simulator::Destroy();
    }
};

/// Times of reception
class TimestampTest : public TestCase
{
  public:
    TimestampTest()
        : TestCase("packets carry their time of reception; in deterministic mode, that of the simulation")
    {
    }

  private:
    std::vector<Time> m_times; //!< times of the tags
    uint32_t m_traced{0};      //!< how often the trace fired

    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        SlipringTimestampTag tag;
        NS_TEST_EXPECT_MSG_EQ(packet->PeekPacketTag(tag), true, "tag");
        m_times.push_back(tag.GetTime());
        return true;
    }

    void Traced(Ptr<const Packet>, Time)
    {
        m_traced++;
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper helper;
        helper.SetAttribute("Timestamping", StringValue("Software"));
        NetDeviceContainer ends =
            helper.InstallPipe(CreateObject<Node>(), CreateObject<Node>(), PipeName());
        ends.Get(1)->SetReceiveCallback(MakeCallback(&TimestampTest::Receive, this));
        ends.Get(1)->TraceConnectWithoutContext("RxTimestamp",
                                                MakeCallback(&TimestampTest::Traced, this));
        Simulator::Schedule(Seconds(3), [&]() { SendPayload(ends.Get(0), MakeFrame(60, 1)); });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ((m_times == std::vector<Time>{Seconds(3)}), true, "time");
        NS_TEST_EXPECT_MSG_EQ(m_traced, 1, "trace");
        Simulator::Destroy();
    }
};

/// Drops have reasons
class DropTest : public TestCase
{
  public:
    DropTest()
        : TestCase("each dropped frame has a reason, in the trace and in the counters")
    {
    }

  private:
    std::map<std::string, uint32_t> m_drops; //!< drops by name

    void Dropped(Ptr<const Packet>, SlipringDropReason reason)
    {
        m_drops[SlipringDropName(reason)]++;
    }

    void DoRun() override
    {
        PipeEnds pipe;
        RawPort peer(pipe.first, 64);
        Ptr<SlipringNetDevice> device = MakeDevice(pipe.second, 64);
        device->TraceConnectWithoutContext("Drop", MakeCallback(&DropTest::Dropped, this));
        SendPayload(device, MakeFrame(60, 0));
        Simulator::Schedule(Seconds(1), [&]() {
            SendPayload(device, MakeFrame(1600, 0));
            peer.Send(Frame(10, 1));
            peer.Send(MakeFrame(1600, 0));
            for (uint32_t i = 0; i < 65; i++)
            {
                SendPayload(device, MakeFrame(60, i));
            }
            device->Service();
        });
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_drops["tx_link_down"], 1, "before the start");
        NS_TEST_EXPECT_MSG_EQ(m_drops["tx_too_long"], 1, "longer than the MTU");
        NS_TEST_EXPECT_MSG_EQ(m_drops["rx_too_short"], 1, "shorter than a header");
        NS_TEST_EXPECT_MSG_EQ(m_drops["rx_too_long"], 1, "longer than the MTU");
        NS_TEST_EXPECT_MSG_EQ(m_drops["tx_queue_stopped"], 2, "room for 63 frames");
        SlipringQueueStats stats = device->GetStats();
        NS_TEST_EXPECT_MSG_EQ(stats.txAccepted, stats.txPackets + device->GetInflightFrames(0), "tx");
        NS_TEST_EXPECT_MSG_EQ(stats.rxFrames, 2, "rx");
        Simulator::Destroy();
    }
};

/// What TryInstall refuses
class RefusalTest : public TestCase
{
  public:
    RefusalTest()
        : TestCase("TryInstall returns typed errors with advice, and leaves no device on the node")
    {
    }

  private:
    void Refused(SlipringNetDeviceHelper& helper, SlipringError::Kind kind, const std::string& what)
    {
        Ptr<Node> node = CreateObject<Node>();
        SlipringInstallResult result = helper.TryInstall(node);
        NS_TEST_EXPECT_MSG_EQ(result.error.kind, kind, what << ": " << result.error);
        NS_TEST_EXPECT_MSG_EQ(result.error.message.empty(), false, what);
        NS_TEST_EXPECT_MSG_EQ(result.error.help.empty(), false, what);
        NS_TEST_EXPECT_MSG_EQ(node->GetNDevices(), 0, what);
        NS_TEST_EXPECT_MSG_EQ(result.devices.GetN(), 0, what);
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper none;
        Refused(none, SlipringError::USAGE, "no name");
        SlipringNetDeviceHelper missing("netmap:nosuchif0");
        Refused(missing, SlipringError::MACHINE, "no such interface");
        SlipringNetDeviceHelper longName("netmap:" + std::string(300, 'x'));
        Refused(longName, SlipringError::USAGE, "a long name");
        SlipringNetDeviceHelper pi(PipeName() + "{1");
        pi.SetAttribute("EncapsulationMode", StringValue("DixPi"));
        Refused(pi, SlipringError::USAGE, "DixPi");
        SlipringNetDeviceHelper hardware(PipeName() + "{1");
        hardware.SetAttribute("Timestamping", StringValue("Hardware"));
        Refused(hardware, SlipringError::MACHINE, "stamps of the NIC");
        SlipringNetDeviceHelper flush(PipeName() + "{1");
        flush.SetAttribute("TxFlush", StringValue("Period"));
        Refused(flush, SlipringError::USAGE, "Period without a period");
        SlipringNetDeviceHelper device(PipeName() + "{1");
        device.SetAttribute("RunDir", StringValue("/nonexistent"));
        Ptr<Node> node = CreateObject<Node>();
        NS_TEST_EXPECT_MSG_EQ(bool(device.TryInstall(node)), false, "no daemon");
        Taken();
        Ranks();
        Simulator::Destroy();
    }

    void Taken()
    {
        std::string name = PipeName();
        SlipringNetDeviceHelper helper(name + "{1");
        Ptr<SlipringNetDevice> first = MakeDevice(name + "{1");
        Refused(helper, SlipringError::MACHINE, "an end that is open already");
    }

    void Ranks()
    {
        SlipringNetDeviceHelper helper(PipeName() + "{1");
        Ptr<Node> node = CreateObject<Node>();
        for (auto name : {"ns3::DistributedSimulatorImpl", "ns3::NullMessageSimulatorImpl"})
        {
            GlobalValue::Bind("SimulatorImplementationType", StringValue(name));
            SlipringInstallResult result = helper.TryInstall(node);
            GlobalValue::Bind("SimulatorImplementationType",
                              StringValue("ns3::DefaultSimulatorImpl"));
            NS_TEST_EXPECT_MSG_EQ(result.error.kind, SlipringError::MULTI_RANK, name);
            NS_TEST_EXPECT_MSG_NE(result.error.message.find(name), std::string::npos, name);
        }
    }
};

/// Two runs of a program give the same result
class RepeatTest : public TestCase
{
  public:
    RepeatTest()
        : TestCase("two runs of a simulation over a pipe give the same events at the same times")
    {
    }

  private:
    std::vector<int64_t> m_times; //!< times of reception

    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        m_times.push_back(Simulator::Now().GetNanoSeconds() * 10000 + packet->GetSize());
        return true;
    }

    std::vector<int64_t> Once()
    {
        m_times.clear();
        SlipringNetDeviceHelper helper;
        helper.SetAttribute("RxBurst", UintegerValue(3));
        NetDeviceContainer ends =
            helper.InstallPipe(CreateObject<Node>(), CreateObject<Node>(), PipeName());
        ends.Get(1)->SetReceiveCallback(MakeCallback(&RepeatTest::Receive, this));
        for (uint32_t i = 0; i < 200; i++)
        {
            Simulator::Schedule(MicroSeconds(1 + i / 7 * 13), [=]() {
                SendPayload(ends.Get(0), MakeFrame(60 + i, i));
            });
        }
        Simulator::Run();
        Simulator::Destroy();
        return m_times;
    }

    void DoRun() override
    {
        std::vector<int64_t> first = Once();
        NS_TEST_EXPECT_MSG_EQ(first.size(), 200, "frames");
        NS_TEST_EXPECT_MSG_EQ((Once() == first), true, "the second run");
    }
};

/// The suite
class SlipringNetDeviceTestSuite : public TestSuite
{
  public:
    SlipringNetDeviceTestSuite()
        : TestSuite("slipring-net-device", SLIPRING_SUITE_UNIT)
    {
        AddTestCase(new PipeTest, SLIPRING_TEST_QUICK);
        AddTestCase(new TracesTest, SLIPRING_TEST_QUICK);
        AddTestCase(new BatchTest, SLIPRING_TEST_QUICK);
        AddTestCase(new FlushTest, SLIPRING_TEST_QUICK);
        AddTestCase(new FlushEventTest, SLIPRING_TEST_QUICK);
        AddTestCase(new CountersTest, SLIPRING_TEST_QUICK);
        AddTestCase(new StallTest, SLIPRING_TEST_QUICK);
        AddTestCase(new TimestampTest, SLIPRING_TEST_QUICK);
        AddTestCase(new DropTest, SLIPRING_TEST_QUICK);
        AddTestCase(new RefusalTest, SLIPRING_TEST_QUICK);
        AddTestCase(new RepeatTest, SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringNetDeviceTestSuite g_slipringNetDeviceTestSuite;

} // namespace
