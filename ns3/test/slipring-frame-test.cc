/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Tests of the repair of frames that were meant for the offloads of a NIC.

#include "slipring-frame.h"
#include "slipring-interface.h"
#include "slipring-ns3-compat.h"

#include "ns3/test.h"

#include <vector>

using namespace ns3;

namespace
{

typedef std::vector<uint8_t> Frame; //!< the bytes of a frame

/// Returns the 16-bit ones' complement sum of some bytes and a start value.
uint32_t
OnesSum(const uint8_t* at, std::size_t length, uint32_t sum)
{
    for (std::size_t i = 0; i < length; i++)
    {
        sum += i % 2 == 0 ? at[i] << 8 : at[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/// Returns the sum over the pseudo header of an IPv4 packet at offset 14.
uint32_t
PseudoSum(const Frame& frame)
{
    uint32_t length = static_cast<uint32_t>(frame.size() - 34);
    return OnesSum(frame.data() + 26, 8, frame[23] + length);
}

/// Returns an IPv4 frame whose checksum is left to the NIC. `field` is the offset of the checksum
/// in the transport header.
Frame
PartialFrame(uint8_t protocol, std::size_t payload, std::size_t field)
{
    std::size_t header = protocol == 6 ? 20 : 8;
    Frame frame(34 + header + payload, 0);
    frame[12] = 8;
    frame[14] = 0x45;
    frame[16] = static_cast<uint8_t>((frame.size() - 14) >> 8);
    frame[17] = static_cast<uint8_t>(frame.size() - 14);
    frame[23] = protocol;
    for (std::size_t i = 26; i < 38; i++)
    {
        frame[i] = static_cast<uint8_t>(i * 7);
    }
    for (std::size_t i = 34 + header; i < frame.size(); i++)
    {
        frame[i] = static_cast<uint8_t>(i * 31 + (i >> 8));
    }
    if (protocol == 6)
    {
        frame[46] = 0x50;
        frame[47] = 0x18; // ACK, PSH
    }
    uint32_t sum = PseudoSum(frame);
    frame[34 + field] = static_cast<uint8_t>(sum >> 8);
    frame[35 + field] = static_cast<uint8_t>(sum);
    return frame;
}

/// Whether the checksum over the pseudo header and the packet is right.
bool
IsValid(const Frame& frame)
{
    return OnesSum(frame.data() + 34, frame.size() - 34, PseudoSum(frame)) == 0xffff;
}

/// Checksums
class ChecksumTest : public TestCase
{
  public:
    ChecksumTest()
        : TestCase("a checksum that was left to the NIC is completed; others stay as they are")
    {
    }

  private:
    void DoRun() override
    {
        for (std::size_t payload : {0, 1, 2, 999, 1000})
        {
            Frame udp = PartialFrame(17, payload, 6);
            NS_TEST_EXPECT_MSG_EQ(IsValid(udp), false, "before");
            NS_TEST_EXPECT_MSG_EQ(SlipringCompleteChecksum(udp.data(), udp.size()), true, "UDP");
            NS_TEST_EXPECT_MSG_EQ(IsValid(udp), true, "UDP, " << payload);
            Frame again = udp;
            NS_TEST_EXPECT_MSG_EQ(SlipringCompleteChecksum(udp.data(), udp.size()), false, "again");
            NS_TEST_EXPECT_MSG_EQ((udp == again), true, "a complete checksum stays");
            Frame tcp = PartialFrame(6, payload, 16);
            NS_TEST_EXPECT_MSG_EQ(SlipringCompleteChecksum(tcp.data(), tcp.size()), true, "TCP");
            NS_TEST_EXPECT_MSG_EQ(IsValid(tcp), true, "TCP, " << payload);
        }
        Invalid();
    }

    /// Cut and changed frames are read within their bounds, which AddressSanitizer checks.
    void Invalid()
    {
        Frame whole = PartialFrame(6, 50, 16);
        for (std::size_t length = 0; length < whole.size(); length++)
        {
            Frame cut(whole.begin(), whole.begin() + length);
            NS_TEST_EXPECT_MSG_EQ(SlipringCompleteChecksum(cut.data(), cut.size()), false, length);
        }
        for (std::size_t at = 12; at < 54; at++)
        {
            for (uint32_t value = 0; value < 256; value++)
            {
                Frame changed = whole;
                changed[at] = static_cast<uint8_t>(value);
                SlipringCompleteChecksum(changed.data(), changed.size());
                SlipringSegmentTcp(changed.data(), changed.size(), 60);
            }
        }
    }
};

/// Segmentation
class SegmentTest : public TestCase
{
  public:
    SegmentTest()
        : TestCase("a TCP frame that was left to the NIC to segment becomes valid segments")
    {
    }

  private:
    void DoRun() override
    {
        Frame whole = PartialFrame(6, 4000, 16);
        std::vector<Frame> segments = SlipringSegmentTcp(whole.data(), whole.size(), 1500);
        NS_TEST_ASSERT_MSG_EQ(segments.size(), 3, "segments of up to 1460 bytes");
        Frame payload;
        uint32_t sequence = Sequence(whole);
        for (std::size_t i = 0; i < segments.size(); i++)
        {
            const Frame& segment = segments[i];
            NS_TEST_EXPECT_MSG_EQ(IsValid(segment), true, "TCP checksum of " << i);
            NS_TEST_EXPECT_MSG_EQ(OnesSum(segment.data() + 14, 20, 0), 0xffff, "IP checksum");
            uint32_t total = static_cast<uint32_t>(segment[16] << 8 | segment[17]);
            NS_TEST_EXPECT_MSG_EQ(total, segment.size() - 14, "IP length");
            NS_TEST_EXPECT_MSG_EQ(Sequence(segment), sequence + payload.size(), "sequence number");
            NS_TEST_EXPECT_MSG_EQ(segment[47], (i == 2 ? 0x18 : 0x10), "PSH in the last segment");
            payload.insert(payload.end(), segment.begin() + 54, segment.end());
        }
        NS_TEST_EXPECT_MSG_EQ((payload == Frame(whole.begin() + 54, whole.end())), true, "payload");
        Frame udp = PartialFrame(17, 4000, 6);
        std::size_t count = SlipringSegmentTcp(udp.data(), udp.size(), 1500).size();
        NS_TEST_EXPECT_MSG_EQ(count, 0, "UDP cannot be split");
    }

    /// Returns the sequence number.
    static uint32_t Sequence(const Frame& frame)
    {
        return static_cast<uint32_t>(frame[38]) << 24 | frame[39] << 16 | frame[40] << 8 | frame[41];
    }
};

/// Names of ports
class InterfaceTest : public TestCase
{
  public:
    InterfaceTest()
        : TestCase("the interface of a port is known from its name")
    {
    }

  private:
    void DoRun() override
    {
        const std::pair<const char*, const char*> names[] = {
            {"netmap:eth0", "eth0"},
            {"packet:br--lan", "br-lan"},
            {"xdp:eth0-2", "eth0"},
            {"netmap:br--lan-3@conf:slots=64", "br-lan"},
            {"netmap:eth1^", "eth1"},
            {"netmap:eth1-", "eth1"},
        };
        for (const auto& [port, interface] : names)
        {
            NS_TEST_EXPECT_MSG_EQ(SlipringInterfaceOf(port, "packet"), interface, port);
        }
        NS_TEST_EXPECT_MSG_EQ(SlipringInterfaceOf("lan{1", "pipe"), "", "a pipe has none");
    }
};

/// The suite
class SlipringFrameTestSuite : public TestSuite
{
  public:
    SlipringFrameTestSuite()
        : TestSuite("slipring-frame", SLIPRING_SUITE_UNIT)
    {
        AddTestCase(new ChecksumTest, SLIPRING_TEST_QUICK);
        AddTestCase(new InterfaceTest, SLIPRING_TEST_QUICK);
        AddTestCase(new SegmentTest, SLIPRING_TEST_QUICK);
    }
};

/// Registers the suite
SlipringFrameTestSuite g_slipringFrameTestSuite;

} // namespace
