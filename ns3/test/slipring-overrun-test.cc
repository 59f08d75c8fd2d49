/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests of full rx rings behind a pipe. Those of interfaces are in slipring-veth-test.cc.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/simulator.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// Slots of a ring, of which one always is free
constexpr uint32_t SLOTS = 64;

/// A device at a pipe, and a peer that has filled its rx ring
struct FullRing
{
    PipeEnds pipe;                 //!< the pipe
    RawPort peer{pipe.first, SLOTS}; //!< the peer
    Ptr<SlipringNetDevice> device{MakeDevice(pipe.second, SLOTS)}; //!< the device
    Received received;             //!< what it receives
    std::vector<uint32_t> overruns; //!< frames that were pending in each burst that found the ring full

    /// \param rxBurst attribute RxBurst of the device
    explicit FullRing(uint32_t rxBurst)
    {
        device->SetAttribute("RxBurst", UintegerValue(rxBurst));
        device->TraceConnectWithoutContext(
            "RxOverrun",
            Callback<void, uint32_t, uint32_t>(
                [this](uint32_t, uint32_t pending) { overruns.push_back(pending); }));
        received.Connect(device);
        Simulator::Schedule(Seconds(1), [this]() {
            while (peer.Send(MakeFrame(60, sent)))
            {
                sent++;
            }
            device->Service();
        });
    }

    uint32_t sent{0}; //!< frames that the peer had room for
};

void
CountsEachBurst(FunctionTest& test)
{
    FullRing ring(SLOTS / 4);
    Simulator::Run();
    // The second burst returns the slots of the first, so 47 frames are left. None could arrive
    // meanwhile.
    test.AtLeast<std::size_t>(ring.overruns.size(), 2, "bursts that found the ring full");
    test.Equal(ring.device->GetStats().rxOverruns, ring.overruns.size(), "the counter");
    test.Equal(ring.overruns.front(), SLOTS - 1, "pending in the first");
}

void
KeepsFramesOfPipes(FunctionTest& test)
{
    FullRing ring(SLOTS / 4);
    Simulator::Run();
    test.AtLeast<uint32_t>(ring.sent, SLOTS - 1, "frames sent");
    test.Equal(ring.received.frames.size(), ring.sent, "frames received");
    test.Equal(ring.device->GetStats().GetDrops(SlipringDropReason::RX_OVERRUN), 0, "drops");
}

/// The suite
class SlipringOverrunTestSuite : public TestSuite
{
  public:
    SlipringOverrunTestSuite()
        : TestSuite("slipring-net-device-overrun", SLIPRING_SUITE_UNIT)
    {
        Add("EachBurstThatFindsTheRingFullIsAnOverrun", CountsEachBurst);
        Add("AFullRingOfAPipeLosesNoFrame", KeepsFramesOfPipes);
    }

  private:
    void Add(std::string name, std::function<void(FunctionTest&)> function)
    {
        AddTestCase(new FunctionTest(name, function), SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringOverrunTestSuite g_slipringOverrunTestSuite;

} // namespace
