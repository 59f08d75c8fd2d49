/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests for the known defects of ns-3's NetmapNetDevice, named after them. D2, D12 and D13 are in
// slipring-realtime-test.cc.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/simulator.h"
#include "ns3/slipring-netmap-compat.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <net/netmap.h>
#include <slipring.h>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

void
D1(FunctionTest& test)
{
    Bottleneck link(64);
    uint32_t drained = 0;
    std::function<void()> drain = [&]() {
        Frame frame;
        drained += link.peer.Receive(frame) ? 1 : 0;
        link.device->Service();
        if (Simulator::Now() < Seconds(5))
        {
            Simulator::Schedule(MilliSeconds(1), drain);
        }
    };
    Simulator::Schedule(Seconds(1), [&]() { link.Send(1000, 1000); });
    Simulator::Schedule(Seconds(1), drain);
    Simulator::Run();
    test.Equal(drained, 1000, "frames delivered");
    test.Equal(link.discs.Get(0)->GetStats().nTotalDroppedPackets, 0, "drops of the queue disc");
    SlipringQueueStats stats = link.device->GetStats();
    test.AtLeast<uint64_t>(stats.stops, 10, "stops");
    test.AtLeast<uint64_t>(stats.wakes, 10, "wakes");
    for (uint64_t drops : stats.drops)
    {
        test.Equal(drops, 0, "drops of the device");
    }
}

void
D1Bql(FunctionTest& test)
{
    auto limits = CreateObject<NotingLimits>();
    limits->limit = 3000;
    Bottleneck link(64, limits);
    uint32_t drained = 0;
    uint64_t most = 0;
    std::function<void()> drain = [&]() {
        Frame frame;
        most = std::max(most, link.device->GetInflightBytes(0));
        drained += link.peer.Receive(frame) ? 1 : 0;
        link.device->Service();
        if (Simulator::Now() < Seconds(5))
        {
            Simulator::Schedule(MilliSeconds(1), drain);
        }
    };
    Simulator::Schedule(Seconds(1), [&]() { link.Send(1000, 1000); });
    Simulator::Schedule(Seconds(1), drain);
    Simulator::Run();
    test.Equal(drained, 1000, "frames delivered");
    test.Equal(most <= 3000 + 1034, true, "bytes in the ring: at most a frame above the limit");
    test.Equal(link.device->GetStats().stops, 0, "the ring never was full");
}

void
D3(FunctionTest& test)
{
    auto threads = []() {
        auto tasks = std::filesystem::directory_iterator("/proc/self/task");
        return std::distance(std::filesystem::begin(tasks), std::filesystem::end(tasks));
    };
    auto before = threads();
    NetDeviceContainer ends =
        SlipringNetDeviceHelper().InstallPipe(CreateObject<Node>(), CreateObject<Node>());
    Received received;
    received.Connect(ends.Get(1));
    Simulator::Schedule(Seconds(1), [&]() {
        SendPayload(ends.Get(0), MakeFrame(60, 1));
        test.Equal(threads(), before, "threads under the default simulator");
    });
    Simulator::Run();
    test.Equal(received.frames.size(), 1, "frames");
}

void
D4(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    Received received;
    received.Connect(device);
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 1000; i++)
        {
            SlipringNetDeviceTestAccess::PostSpuriousWake(device);
        }
    });
    Simulator::Schedule(Seconds(2), [&]() {
        peer.Send(MakeFrame(60, 1));
        SlipringNetDeviceTestAccess::PostSpuriousWake(device);
    });
    Simulator::Run();
    test.Equal(received.frames.size(), 1, "frames after 1000 wake-ups without one");
}

void
D5(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    Received received;
    received.Connect(device);
    Simulator::Schedule(Seconds(1), [&]() {
        peer.Send(MakeFrame(1600, 1));
        peer.Send(MakeFrame(2048, 2));
        peer.Send(MakeFrame(1514, 3));
        device->Service();
    });
    Simulator::Run();
    test.Equal(received.frames.size(), 1, "the frame of the MTU");
    test.Equal(device->GetStats().GetDrops(SlipringDropReason::RX_TOO_LONG), 2, "counted drops");
}

void
D6(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    device->SetMtu(9000);
    Simulator::Schedule(Seconds(1), [&]() {
        SendPayload(device, MakeFrame(60, 1));
        SendPayload(device, MakeFrame(9014, 2));
        SendPayload(device, MakeFrame(60, 3));
    });
    Simulator::Run();
    Frame frame;
    for (uint32_t seed = 1; seed <= 3; seed++)
    {
        Frame sent = MakeFrame(seed == 2 ? 9014 : 60, seed);
        test.Equal(peer.Receive(frame), true, "a frame");
        test.Equal(frame.size(), sent.size(), "its length");
        test.Equal(std::equal(frame.begin() + 14, frame.end(), sent.begin() + 14), true, "its bytes");
    }
}

void
D7(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 1; i <= 10; i++)
        {
            SendPayload(device, MakeFrame(100, i));
            test.Equal(device->GetInflightFrames(0), i, "frames in flight");
            test.Equal(device->GetInflightBytes(0), 100 * i, "bytes in flight");
        }
    });
    Simulator::Schedule(Seconds(2), [&]() {
        Frame frame;
        for (uint32_t left = 9; left + 1 > 0; left--)
        {
            peer.Receive(frame);
            device->Service();
            test.Equal(device->GetInflightFrames(0), left, "frames in flight, after one has left");
            test.Equal(device->GetInflightBytes(0), 100 * left, "bytes in flight");
        }
    });
    Simulator::Run();
}

void
D8(FunctionTest& test)
{
    auto limits = CreateObject<NotingLimits>();
    Bottleneck link(64, limits);
    Simulator::Schedule(Seconds(1), [&]() {
        for (std::size_t length : {1514, 1514, 1514, 66})
        {
            SendPayload(link.device, MakeFrame(length, 1));
        }
    });
    Simulator::Schedule(Seconds(2), [&]() {
        test.Equal((limits->queued == std::vector<uint32_t>{1514, 1514, 1514, 66}), true, "queued");
        test.Equal(limits->completed.size(), 0, "nothing has left");
        link.peer.ReceiveAll();
        link.device->Service();
        test.Equal((limits->completed == std::vector<uint32_t>{4608}), true, "all has left");
    });
    Simulator::Run();
}

void
D9(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first, 64);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second, 64);
    uint32_t drops = 0;
    device->TraceConnectWithoutContext(
        "MacTxDrop",
        Callback<void, Ptr<const Packet>>([&drops](Ptr<const Packet>) { drops++; }));
    Simulator::Schedule(Seconds(1), [&]() {
        Frame frame = MakeFrame(60, 1);
        for (uint32_t i = 0; i < 63; i++)
        {
            test.Equal(device->Write(frame.data(), frame.size()), 60, "room");
        }
        test.Equal(device->Write(frame.data(), frame.size()), -1, "no room");
        test.Equal(SendPayload(device, frame), false, "no room");
        test.Equal(drops, 1, "MacTxDrop fires once for a packet");
    });
    Simulator::Run();
}

void
D10(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first, 64);
    Ptr<SlipringNetDevice> device = CreateObject<SlipringNetDevice>();
    device->SetAttribute("PortName", StringValue(pipe.second));
    device->SetAttribute("RingSlots", UintegerValue(64));
    Frame frame = MakeFrame(60, 1);
    test.Equal(device->Write(frame.data(), frame.size()), -1, "before the start");
    CreateObject<Node>()->AddDevice(device);
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 63; i++)
        {
            test.Equal(device->Write(frame.data(), frame.size()), 60, "room");
        }
        test.Equal(device->Write(frame.data(), frame.size()), -1, "no room, no queue to stop");
        test.Equal(peer.ReceiveAll(), 63, "frames");
        test.Equal(device->Write(frame.data(), frame.size()), 60, "room again");
    });
    Simulator::Run();
}

void
D11(FunctionTest& test)
{
    SlipringNetDeviceHelper helper(PipeName() + "{1");
    helper.SetAttribute("SyncAndNotifyQueuePeriod", UintegerValue(1000));
    Ptr<NetDevice> device = helper.Install(CreateObject<Node>()).Get(0);
    TimeValue period;
    device->GetAttribute("SyncAndNotifyQueuePeriod", period);
    test.Equal(period.Get(), MilliSeconds(1), "1000 µs as an integer");
    device->SetAttribute("SyncAndNotifyQueuePeriod", TimeValue(Seconds(1)));
}

/// The names of ns-3's netmap device are ours only where ns-3 is built without it.
void
NetmapNames(FunctionTest& test)
{
#if __has_include("ns3/netmap-net-device.h")
    std::string name = "ns3::NetmapNetDevice";
#else
    std::string name = "ns3::SlipringNetDevice";
#endif
    test.Equal(NetmapNetDevice::GetTypeId().GetName(), name, "the netmap device");
    test.Equal(TypeId::LookupByName(name) == NetmapNetDevice::GetTypeId(), true, "by its name");
    test.Equal(SlipringNetDevice::GetTypeId().GetName(), std::string("ns3::SlipringNetDevice"), "ours");
    NetmapNetDeviceHelper helper; // Both have this function, with this type.
    helper.SetDeviceName("eth1");
}

void
D14Slots(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    device->SetMtu(9000);
    Received received;
    received.Connect(device);
    Frame sent = MakeFrame(9014, 5);
    Simulator::Schedule(Seconds(1), [&]() {
        netmap_ring* ring = slipring_tx_ring(peer.Get(), 0);
        for (std::size_t at = 0; at < sent.size(); at += 2000)
        {
            netmap_slot& slot = ring->slot[ring->head];
            std::size_t part = std::min<std::size_t>(2000, sent.size() - at);
            char* buffer = reinterpret_cast<char*>(ring) + ring->buf_ofs +
                           std::size_t(slot.buf_idx) * ring->nr_buf_size;
            std::copy_n(sent.begin() + at, part, buffer);
            slot.len = static_cast<uint16_t>(part);
            slot.flags = at + part < sent.size() ? NS_MOREFRAG : 0;
            ring->head = ring->cur = ring->head + 1;
        }
        slipring_tx_sync(peer.Get(), 0);
        device->Service();
    });
    Simulator::Run();
    test.Equal(received.frames.size(), 1, "one frame of five slots");
    bool same = received.frames.size() == 1 && received.frames[0] == Frame(sent.begin() + 14, sent.end());
    test.Equal(same, true, "its bytes");
}

void
D14Queues(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first + "@conf:rings=2");
    SlipringNetDeviceHelper helper(pipe.second + "@conf:rings=2");
    helper.SetAttribute("RxBurst", UintegerValue(10));
    auto device = DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
    test.Equal(device->GetNTxQueues(), 2, "tx queues");
    auto queues = device->GetObject<NetDeviceQueueInterface>();
    test.Equal(queues->GetNTxQueues(), 2, "queues of ns-3");
    test.Equal(bool(queues->GetSelectQueueCallback()), true, "select-queue callback");
    std::vector<uint32_t> order;
    device->SetReceiveCallback(
        NetDevice::ReceiveCallback([&order](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&) {
            order.push_back(packet->GetSize());
            return true;
        }));
    std::vector<uint32_t> sent(2);
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 20; i++)
        {
            peer.Send(MakeFrame(114, i), 0);
            peer.Send(MakeFrame(214, i), 1);
        }
        device->Service();
        for (uint16_t flow = 0; flow < 64; flow++)
        {
            Ipv4Header header;
            header.SetSource(Ipv4Address(0x0a000001U + flow));
            header.SetDestination(Ipv4Address("10.1.0.1"));
            header.SetProtocol(253);
            auto item = Create<Ipv4QueueDiscItem>(Create<Packet>(100), device->GetBroadcast(), 0x0800, header);
            std::size_t queue = queues->GetSelectQueueCallback()(item);
            sent[queue]++;
            item->AddHeader();
            device->Send(item->GetPacket(), item->GetAddress(), item->GetProtocol());
        }
    });
    Simulator::Run();
    test.Equal(order.size(), 40, "frames received");
    for (std::size_t i = 0; i < order.size(); i++)
    {
        test.Equal(order[i], i % 2 == 0 ? 100 : 200, "in turn from each ring");
    }
    for (uint32_t queue = 0; queue < 2; queue++)
    {
        test.AtLeast<uint32_t>(sent[queue], 1, "flows of a queue");
        test.Equal(device->GetStats(queue).txAccepted, sent[queue], "frames of a queue");
        Frame frame;
        uint32_t arrived = 0;
        while (peer.Receive(frame, queue))
        {
            arrived++;
        }
        test.Equal(arrived, sent[queue], "frames in the ring of the selected queue");
    }
}

void
D15(FunctionTest& test)
{
    for (std::string name : {std::string("apipewitharatherlongname{1"), std::string("netmap:x{7")})
    {
        SlipringNetDeviceHelper helper(name);
        SlipringInstallResult result = helper.TryInstall(CreateObject<Node>());
        std::ostringstream reason;
        reason << name << ": " << result.error;
        test.Equal(bool(result), true, reason.str());
    }
    SlipringNetDeviceHelper capture("pcap:/nonexistent/file");
    SlipringInstallResult result = capture.TryInstall(CreateObject<Node>());
    test.Equal(bool(result), false, "a capture that does not exist");
}

void
D16(FunctionTest& test)
{
    PipeEnds pipe;
    RawPort peer(pipe.first);
    Ptr<SlipringNetDevice> device = MakeDevice(pipe.second);
    std::vector<bool> links;
    uint32_t changes = 0;
    device->TraceConnectWithoutContext("LinkState",
                                       Callback<void, bool>([&links](bool up) { links.push_back(up); }));
    device->AddLinkChangeCallback(Callback<void>([&changes]() { changes++; }));
    test.Equal(device->IsLinkUp(), false, "before the start");
    device->Stop(Seconds(0));
    Simulator::Schedule(Seconds(1), [&]() {
        device->Start(Seconds(0));
        device->Start(Seconds(0));
    });
    Simulator::Schedule(Seconds(2), [&]() {
        SendPayload(device, MakeFrame(60, 1));
        peer.Send(MakeFrame(60, 2));
        device->Stop(Seconds(0));
        device->Stop(Seconds(0));
    });
    Simulator::Schedule(Seconds(3), [&]() {
        test.Equal(device->IsLinkUp(), false, "after the stop");
        test.Equal(SendPayload(device, MakeFrame(60, 3)), false, "sending after the stop");
        SlipringQueueStats stats = device->GetStats();
        test.Equal(stats.txAccepted, stats.txPackets + stats.txUnfinished, "tx frames");
        test.Equal(stats.txAccepted, 1, "sent");
        test.Equal(stats.rxFrames, 1, "the frame in the rx ring");
        test.Equal(stats.GetDrops(SlipringDropReason::RX_LOST_AT_STOP), 1, "is counted");
    });
    Simulator::Run();
    test.Equal((links.size() >= 2 && links.back() == false), true, "link states");
    test.Equal(changes, links.size(), "link callbacks");
}

void
D16Destroy(FunctionTest& test)
{
    // The simulator does not run. The ports are open all the same, and `Destroy` must close them.
    std::string pipe = PipeName();
    SlipringNetDeviceHelper().InstallPipe(CreateObject<Node>(), CreateObject<Node>(), pipe);
    Simulator::Destroy();
    SlipringInstallResult again =
        SlipringNetDeviceHelper().TryInstallPipe(CreateObject<Node>(), CreateObject<Node>(), pipe);
    test.Equal(bool(again), true, "the name is free again");
}

void
D17(FunctionTest& test)
{
    SlipringNetDeviceHelper helper("netmap:nosuchif0");
    SlipringInstallResult result = helper.TryInstall(CreateObject<Node>());
    test.Equal(result.error.code.rfind("SR", 0), 0, "code");
    test.Equal(result.error.message.find("nosuchif0") != std::string::npos, true, "message");
    test.Equal(result.error.help.empty(), false, "advice");
}

/// The suite
class SlipringDefectsTestSuite : public TestSuite
{
  public:
    SlipringDefectsTestSuite()
        : TestSuite("slipring-net-device-defects", SLIPRING_SUITE_UNIT)
    {
        Add("D1DeadlockOnFullRing", D1);
        Add("D1DeadlockOnByteQueueLimits", D1Bql);
        Add("D3ForeignThreadSchedules", D3);
        Add("D4SpuriousWakeupEndsReception", D4);
        Add("D5LongFrameOverflowsReceiveBuffer", D5);
        Add("D6JumboFrameOverwritesNextBuffer", D6);
        Add("D7InflightBytesMissTwoFrames", D7);
        Add("D8ByteQueueLimitsGetNegativeCounts", D8);
        Add("D9WriteFailureIs65535", D9);
        Add("D10NoQueueInterface", D10);
        Add("D11PeriodIsEightBits", D11);
        Add("TheNamesOfTheNetmapDeviceAreOursOnlyWhereNs3HasNone", NetmapNames);
        Add("D14MultiSlotFrames", D14Slots);
        Add("D14SeveralRings", D14Queues);
        Add("D15OnlyInterfaces", D15);
        Add("D16StopAndStartInAnyOrder", D16);
        Add("D16DestroyWithoutRun", D16Destroy);
        Add("D17FailuresWithoutCause", D17);
    }

  private:
    void Add(std::string name, std::function<void(FunctionTest&)> function)
    {
        AddTestCase(new FunctionTest(name, function), SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringDefectsTestSuite g_slipringDefectsTestSuite;

} // namespace
