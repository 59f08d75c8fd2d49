/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests over a pair of veth interfaces, which veth.sh creates in a namespace of its own.

#include "slipring-ns3-compat.h"
#include "slipring-test-util.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/global-value.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <cstdlib>
#include <linux/capability.h>
#include <slipring.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace ns3;
using namespace ns3::slipringtest;

namespace
{

/// Frames cross the pair in both directions, and the device follows the carrier
class VethTest : public TestCase
{
  public:
    VethTest()
        : TestCase("frames cross a veth pair, and the device follows its carrier")
    {
    }

  private:
    static constexpr uint32_t FRAMES = 100; //!< frames in each direction

    uint32_t m_received{0};        //!< frames that the device has received
    uint32_t m_arrived{0};         //!< frames that the peer has received
    std::vector<bool> m_links;     //!< reported states of the link
    Ptr<SlipringNetDevice> m_device; //!< the device
    std::unique_ptr<RawPort> m_peer; //!< the other interface

    bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t protocol, const Address&)
    {
        m_received += protocol == 0x88b5 ? 1 : 0;
        return true;
    }

    void Link(bool up)
    {
        m_links.push_back(up);
        if (!up)
        {
            Simulator::Stop();
        }
    }

    void Send()
    {
        for (uint32_t i = 0; i < FRAMES; i++)
        {
            NS_TEST_EXPECT_MSG_EQ(SendPayload(m_device, MakeFrame(60 + i, i)), true, "send " << i);
            NS_TEST_EXPECT_MSG_EQ(m_peer->Send(MakeFrame(60 + i, i)), true, "peer sends " << i);
        }
        Look();
    }

    /// Checks every millisecond of real time whether all frames have arrived; when they have, takes
    /// the link down.
    void Look()
    {
        Frame frame;
        while (m_peer->Receive(frame))
        {
            m_arrived += frame[12] == 0x88 && frame[13] == 0xb5 ? 1 : 0;
        }
        if (m_arrived < FRAMES || m_received < FRAMES)
        {
            Simulator::Schedule(MilliSeconds(1), &VethTest::Look, this);
            return;
        }
        NS_TEST_EXPECT_MSG_EQ(std::system("ip link set sv1 down"), 0, "ip");
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper::EnableRealtime();
        std::string hostStack = std::getenv("SLIPRING_TEST_VETH");
        SlipringNetDeviceHelper helper("packet:sv0");
        helper.SetAttribute("HostStack", StringValue(hostStack));
        m_device = DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
        m_peer = std::make_unique<RawPort>("packet:sv1",
                                           0,
                                           hostStack == "Share" ? SLIPRING_OPEN_SHARED : 0);
        m_device->SetReceiveCallback(MakeCallback(&VethTest::Receive, this));
        m_device->TraceConnectWithoutContext("LinkState", MakeCallback(&VethTest::Link, this));
        Simulator::Schedule(MilliSeconds(10), &VethTest::Send, this);
        Simulator::Stop(Seconds(120));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(m_arrived, FRAMES, "frames sent");
        NS_TEST_EXPECT_MSG_EQ(m_received, FRAMES, "frames received");
        NS_TEST_EXPECT_MSG_EQ((m_links == std::vector<bool>{true, false}), true, "states of the link");
        NS_TEST_EXPECT_MSG_EQ(m_device->IsLinkUp(), false, "the link");
        NS_TEST_EXPECT_MSG_EQ(SendPayload(m_device, MakeFrame(60, 0)), false, "no link");
        m_device = nullptr;
        m_peer.reset();
        Simulator::Destroy();
        DefaultSimulator();
    }

    /// Under the default simulator, an interface is refused.
    void DefaultSimulator()
    {
        GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
        GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
        SlipringNetDeviceHelper helper("packet:sv0");
        helper.SetAttribute("HostStack", StringValue("Share"));
        SlipringInstallResult result = helper.TryInstall(CreateObject<Node>());
        NS_TEST_EXPECT_MSG_EQ(result.error.kind, SlipringError::SIMULATOR, result.error);
        Simulator::Destroy();
    }
};

/// Which frames are lost if an interface receives them faster than the device takes them
class OverrunTest : public TestCase
{
  public:
    /**
     * \param name name of the test
     * \param share attribute RxDropOldest
     */
    OverrunTest(const std::string& name, double share)
        : TestCase(name),
          m_share(share)
    {
    }

  private:
    static constexpr uint32_t SLOTS = 64;   //!< slots of the ring
    static constexpr uint32_t FRAMES = 1000; //!< frames that are sent at once

    double m_share;                  //!< attribute RxDropOldest
    uint32_t m_sent{0};              //!< frames that were sent
    uint32_t m_dropped{0};           //!< frames that the device has dropped
    uint32_t m_received{0};          //!< frames that the device has received
    int64_t m_last{-1};              //!< number of the last of these
    bool m_ordered{true};            //!< whether all numbers rise
    Ptr<SlipringNetDevice> m_device; //!< the device
    std::unique_ptr<RawPort> m_peer; //!< the other interface

    /// Notes the number of a frame that is dropped or received.
    void Note(const Frame& payload)
    {
        int64_t number = payload[0] << 16 | payload[1] << 8 | payload[2];
        m_ordered = m_ordered && number > m_last;
        m_last = number;
    }

    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address&)
    {
        if (protocol == 0x88b5)
        {
            Frame payload(packet->GetSize());
            packet->CopyData(payload.data(), packet->GetSize());
            Note(payload);
            m_received++;
        }
        return true;
    }

    void Drop(Ptr<const Packet> packet, SlipringDropReason reason)
    {
        Frame frame(packet->GetSize());
        packet->CopyData(frame.data(), packet->GetSize());
        if (frame[12] == 0x88 && frame[13] == 0xb5 && reason == SlipringDropReason::RX_OVERRUN)
        {
            Note(Frame(frame.begin() + 14, frame.end()));
            m_dropped++;
        }
    }

    /// Sends frames in one event, until the device has found its ring full.
    void Send()
    {
        if (m_device->GetStats().rxOverruns > 0)
        {
            Simulator::Stop();
            return;
        }
        for (uint32_t end = m_sent + FRAMES; m_sent < end; m_sent++)
        {
            Frame frame = MakeFrame(60, 0);
            frame[14] = static_cast<uint8_t>(m_sent >> 16);
            frame[15] = static_cast<uint8_t>(m_sent >> 8);
            frame[16] = static_cast<uint8_t>(m_sent);
            m_peer->Send(frame);
        }
        Simulator::Schedule(MilliSeconds(1), &OverrunTest::Send, this);
    }

    void DoRun() override
    {
        SlipringNetDeviceHelper::EnableRealtime();
        NS_TEST_EXPECT_MSG_EQ(std::system("ip link set sv1 up"), 0, "ip");
        std::string hostStack = std::getenv("SLIPRING_TEST_VETH");
        SlipringNetDeviceHelper helper("packet:sv0");
        helper.SetAttribute("HostStack", StringValue(hostStack));
        helper.SetAttribute("RingSlots", UintegerValue(SLOTS));
        helper.SetAttribute("RxDropOldest", DoubleValue(m_share));
        m_device = DynamicCast<SlipringNetDevice>(helper.Install(CreateObject<Node>()).Get(0));
        m_peer = std::make_unique<RawPort>("packet:sv1",
                                           0,
                                           hostStack == "Share" ? SLIPRING_OPEN_SHARED : 0);
        m_device->SetReceiveCallback(MakeCallback(&OverrunTest::Receive, this));
        m_device->TraceConnectWithoutContext("Drop", MakeCallback(&OverrunTest::Drop, this));
        Simulator::Schedule(MilliSeconds(10), &OverrunTest::Send, this);
        Simulator::Stop(Seconds(120));
        Simulator::Run();
        SlipringQueueStats stats = m_device->GetStats();
        NS_TEST_EXPECT_MSG_GT(stats.rxOverruns, 0, "the ring was full");
        NS_TEST_EXPECT_MSG_EQ((m_dropped > 0), (m_share > 0), "frames were dropped");
        NS_TEST_EXPECT_MSG_EQ(m_ordered, true, "each dropped frame was the oldest one");
        NS_TEST_EXPECT_MSG_EQ(stats.rxFrames,
                              stats.rxPackets + stats.GetDrops(SlipringDropReason::RX_OVERRUN),
                              "the counters");
        m_device = nullptr;
        m_peer.reset();
        Simulator::Destroy();
        GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
        GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
    }
};

/// While an object of this class exists, its thread lacks CAP_NET_ADMIN
class NoNetAdmin
{
  public:
    NoNetAdmin()
    {
        syscall(SYS_capget, &m_header, m_before);
        __user_cap_data_struct without[2] = {m_before[0], m_before[1]};
        without[0].effective &= ~(1U << CAP_NET_ADMIN);
        syscall(SYS_capset, &m_header, without);
    }

    ~NoNetAdmin()
    {
        syscall(SYS_capset, &m_header, m_before);
    }

  private:
    __user_cap_header_struct m_header{_LINUX_CAPABILITY_VERSION_3, 0}; //!< this thread
    __user_cap_data_struct m_before[2]{};                              //!< its capabilities
};

/// A packet socket on an interface that is promiscuous already needs only cap_net_raw
class PromiscuousTest : public TestCase
{
  public:
    PromiscuousTest()
        : TestCase("an interface that is promiscuous already is opened without cap_net_admin")
    {
    }

  private:
    SlipringError Try() const
    {
        NoNetAdmin guard;
        SlipringEmuFdNetDeviceHelper helper;
        helper.SetDeviceName("sv0");
        SlipringError error = helper.TryInstall(CreateObject<Node>()).error;
        Simulator::Destroy();
        return error;
    }

    void DoRun() override
    {
        SlipringError refused = Try();
        NS_TEST_EXPECT_MSG_EQ(refused.kind, SlipringError::MACHINE, refused);
        NS_TEST_EXPECT_MSG_EQ(std::system("ip link set sv0 promisc on"), 0, "ip");
        SlipringError error = Try();
        NS_TEST_EXPECT_MSG_EQ(bool(error), false, error);
        NS_TEST_EXPECT_MSG_EQ(std::system("ip link set sv0 promisc off"), 0, "ip");
    }
};

/// The suite
class SlipringVethTestSuite : public TestSuite
{
  public:
    SlipringVethTestSuite()
        : TestSuite("slipring-net-device-veth", SLIPRING_SUITE_SYSTEM)
    {
        AddTestCase(new VethTest, SLIPRING_TEST_QUICK);
        AddTestCase(new PromiscuousTest, SLIPRING_TEST_QUICK);
        AddTestCase(new OverrunTest("a full ring of an interface loses its oldest frames", 0.25),
                    SLIPRING_TEST_QUICK);
        AddTestCase(new OverrunTest("with RxDropOldest 0, it keeps them", 0), SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite where veth.sh has made the interfaces.
std::unique_ptr<SlipringVethTestSuite> g_slipringVethTestSuite =
    std::getenv("SLIPRING_TEST_VETH") ? std::make_unique<SlipringVethTestSuite>() : nullptr;

} // namespace
