/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests of byte queue limits: what they leave in the tx ring, and what a restart does to them.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/dynamic-queue-limits.h"
#include "ns3/simulator.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <algorithm>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// Packets that a test sends
constexpr uint32_t PACKETS = 2000;
/// Bytes of a packet without headers, which makes a frame of FRAME bytes
constexpr uint32_t PAYLOAD = 1480;
/// Bytes of a frame of the MTU
constexpr uint32_t FRAME = 1514;

/// What a wire of 20 Mbit/s sees behind a device with dynamic queue limits
struct WireResult
{
    uint32_t most{0};     //!< largest number of bytes in the ring
    uint32_t drained{0};  //!< frames that the wire took
    bool balanced{true};  //!< whether all other packets were in the ring or in the queue disc
    SlipringQueueStats stats; //!< the device's counters
};

/**
 * Sends PACKETS packets in one event.
 * \param maxLimit attribute MaxLimit of the limits; 0: the default
 * \param late the device is told of sent frames once per this many frames on the wire
 * \return what the wire sees
 */
WireResult
DrainByWire(uint32_t maxLimit, uint32_t late)
{
    WireResult result;
    auto limits = CreateObject<DynamicQueueLimits>();
    if (maxLimit > 0)
    {
        limits->SetAttribute("MaxLimit", UintegerValue(maxLimit));
    }
    Bottleneck link(512, limits);
    link.device->TraceConnectWithoutContext(
        "TxInflightBytes",
        Callback<void, uint32_t, uint32_t>(
            [&](uint32_t, uint32_t bytes) { result.most = std::max(result.most, bytes); }));
    uint32_t turns = 0;
    std::function<void()> drain = [&]() {
        Frame frame;
        uint64_t backlog = link.discs.Get(0)->GetNPackets();
        uint64_t inRing = link.device->GetInflightFrames(0);
        result.balanced = result.balanced && backlog + link.device->GetStats().txPackets + inRing == PACKETS;
        result.drained += link.peer.Receive(frame) ? 1 : 0;
        if (++turns % late == 0)
        {
            link.device->Service();
        }
        if (result.drained < PACKETS && Simulator::Now() < Seconds(200))
        {
            Simulator::Schedule(MicroSeconds(615), drain);
        }
    };
    Simulator::Schedule(Seconds(1), [&]() { link.Send(PACKETS, PAYLOAD); });
    Simulator::Schedule(Seconds(1), [&]() { Simulator::ScheduleNow(drain); });
    Simulator::Run();
    result.stats = link.device->GetStats();
    return result;
}

void
KeepTwoFrames(FunctionTest& test)
{
    for (uint32_t late : {1, 2, 40})
    {
        std::string when = ", completions late by frames: " + std::to_string(late);
        WireResult wire = DrainByWire(FRAME, late);
        test.Equal(wire.most, 2 * FRAME, "most bytes in the ring" + when);
        test.Equal(wire.drained, PACKETS, "frames delivered" + when);
        test.Equal(wire.balanced, true, "all others wait in the queue disc" + when);
        test.AtLeast<uint64_t>(wire.stats.limitStops, PACKETS / 2 - 1, "stops by the limits" + when);
        test.Equal(wire.stats.stops, 0, "the ring never was full" + when);
        Simulator::Destroy();
    }
}

void
Adapt(FunctionTest& test)
{
    WireResult prompt = DrainByWire(0, 1);
    test.Equal(prompt.most <= 3 * FRAME, true, "a frame more until the limit has settled");
    test.Equal(prompt.drained, PACKETS, "frames delivered");
    Simulator::Destroy();
    WireResult late = DrainByWire(0, 40);
    test.AtLeast(late.most, 40 * FRAME, "enough for a wire that the device serves every 40 frames");
    test.Equal(late.drained, PACKETS, "frames delivered");
}

void
Restart(FunctionTest& test)
{
    QueuedDevice queued("null:", 64, CreateObject<DynamicQueueLimits>());
    // The first frame is in the ring, and has stopped the queue, when the device stops.
    Simulator::Schedule(Seconds(1), [&]() { queued.Send(10, PAYLOAD); });
    queued.device->Stop(Seconds(1));
    uint64_t before = 0;
    Simulator::Schedule(Seconds(2), [&]() {
        before = queued.device->GetStats().txAccepted;
        queued.device->Start(Seconds(0));
    });
    Simulator::Run();
    test.Equal(before, 1, "frames before the restart");
    test.Equal(queued.device->GetStats().txPackets, 10, "frames after it");
    test.Equal(queued.discs.Get(0)->GetNPackets(), 0, "packets left in the queue disc");
}

void
RestartWithUnread(FunctionTest& test)
{
    auto limits = CreateObject<NotingLimits>();
    Bottleneck link(64, limits);
    Ptr<SlipringNetDevice> device = link.device;
    auto step = [&](uint32_t bytes, uint32_t frames, uint32_t sent, const std::string& when) {
        Frame frame;
        test.Equal(link.peer.Receive(frame), true, "a frame" + when);
        device->Service();
        test.Equal(device->GetInflightBytes(0), bytes, "bytes in flight" + when);
        test.Equal(device->GetInflightFrames(0), frames, "frames in flight" + when);
        test.Equal(device->GetStats().txPackets, sent, "frames that have left" + when);
    };
    Simulator::Schedule(Seconds(1), [&]() {
        for (uint32_t i = 0; i < 3; i++)
        {
            SendPayload(device, MakeFrame(FRAME, i));
        }
        // A frame of several slots. The queue records its length for its last slot.
        device->SetMtu(9000);
        SendPayload(device, MakeFrame(9014, 3));
        device->Stop(Seconds(0));
    });
    Simulator::Schedule(Seconds(2), [&]() {
        test.Equal(device->GetStats().txUnfinished, 4, "frames in the ring at the stop");
        device->Start(Seconds(0));
    });
    Simulator::Schedule(Seconds(3), [&]() {
        limits->completed.clear();
        SendPayload(device, MakeFrame(100, 4));
        SendPayload(device, MakeFrame(200, 5));
        for (uint32_t i = 0; i < 4; i++)
        {
            step(300, 2, 0, " after a frame of before the restart");
        }
        step(200, 1, 1, " after the first new frame");
        step(0, 0, 2, " after the second");
    });
    Simulator::Run();
    test.Equal((limits->completed == std::vector<uint32_t>{100, 200}), true, "what the limits are told");
    SlipringQueueStats stats = device->GetStats();
    test.Equal(stats.txAccepted, stats.txPackets + stats.txUnfinished, "all frames");
    test.Equal(stats.txBytes, 300, "bytes that have left");
}

void
RestartWithFullRing(FunctionTest& test)
{
    Bottleneck link(64);
    Ptr<SlipringNetDevice> device = link.device;
    device->SetAttribute("TxStallTimeout", TimeValue(MilliSeconds(500)));
    uint32_t stalls = 0;
    device->TraceConnectWithoutContext("TxStall",
                                       Callback<void, uint32_t>([&stalls](uint32_t) { stalls++; }));
    Simulator::Schedule(Seconds(1), [&]() {
        link.Send(63, PAYLOAD);
        test.Equal(device->GetStats().stops, 1, "the ring is full");
        device->Stop(Seconds(0));
    });
    Simulator::Schedule(Seconds(2), [&]() { device->Start(Seconds(0)); });
    Simulator::Schedule(Seconds(3), [&]() {
        test.Equal(device->GetStats().stops, 2, "the ring is full of frames of before the restart");
        test.Equal(stalls, 1, "nobody takes them, which is reported");
        link.Send(10, PAYLOAD);
        test.Equal(link.discs.Get(0)->GetNPackets(), 10, "packets wait in the queue disc");
        test.Equal(link.peer.ReceiveAll(), 63, "frames of before the restart");
        device->Service();
    });
    Simulator::Schedule(Seconds(4), [&]() { test.Equal(link.peer.ReceiveAll(), 10, "frames of after it"); });
    Simulator::Run();
    SlipringQueueStats stats = device->GetStats();
    test.Equal(stats.wakes, 1, "the queue was woken");
    test.Equal(stats.GetDrops(SlipringDropReason::TX_RING_FULL), 0, "packets lost at the full ring");
    test.Equal(link.discs.Get(0)->GetStats().nTotalDroppedPackets, 0, "packets lost by the queue disc");
}

/// The suite
class SlipringLimitsTestSuite : public TestSuite
{
  public:
    SlipringLimitsTestSuite()
        : TestSuite("slipring-net-device-limits", SLIPRING_SUITE_UNIT)
    {
        Add("ByteQueueLimitsWithAMaximumKeepTwoFramesInTheRing", KeepTwoFrames);
        Add("ByteQueueLimitsGrowOnlyWithLateCompletions", Adapt);
        Add("RestartResumesAQueueThatLimitsHaveStopped", Restart);
        Add("RestartOverAFullRingStopsTheQueueUntilThePeerReads", RestartWithFullRing);
        Add("RestartCountsOnlyNewFramesWhileOldOnesAreUnread", RestartWithUnread);
    }

  private:
    void Add(std::string name, std::function<void(FunctionTest&)> function)
    {
        AddTestCase(new FunctionTest(name, function), SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringLimitsTestSuite g_slipringLimitsTestSuite;

} // namespace
