/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_TEST_UTIL_H
#define SLIPRING_TEST_UTIL_H

#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/slipring-net-device-helper.h"
#include "ns3/queue-disc-container.h"
#include "ns3/queue-limits.h"
#include "ns3/slipring-net-device.h"
#include "ns3/test.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct slipring_port;

namespace ns3
{

/// Gives tests access to private parts of a device.
class SlipringNetDeviceTestAccess
{
  public:
    /**
     * Posts the event that the poll thread posts, though there is nothing to do.
     * \param device the device
     */
    static void PostSpuriousWake(Ptr<SlipringNetDevice> device);

    /**
     * Ends a wait of the poll thread for no reason.
     * \param device the device, which must be started under the real-time simulator
     */
    static void DisturbPoller(Ptr<SlipringNetDevice> device);
};

namespace slipringtest
{

/// The bytes of a frame
typedef std::vector<uint8_t> Frame;

/**
 * \param prefix start of the name
 * \return a name of a pipe that no other test uses
 */
std::string PipeName(const std::string& prefix = "test");

/**
 * \param length length in bytes
 * \param seed what its bytes depend on
 * \return an Ethernet frame to all hosts, with a type that no protocol uses
 */
Frame MakeFrame(std::size_t length, uint32_t seed);

/// The names of the ends of a pipe that no other test uses
struct PipeEnds
{
    std::string name{PipeName()};    //!< name of the pipe
    std::string first{name + "{1"};  //!< one end
    std::string second{name + "}1"}; //!< the other end
};

/// A port that a test uses without a device
class RawPort
{
  public:
    /**
     * \param name name of the port
     * \param slots slots of each ring; 0: the default
     * \param flags flags SLIPRING_OPEN_
     */
    explicit RawPort(const std::string& name, uint32_t slots = 0, uint32_t flags = 0);
    ~RawPort();
    RawPort(const RawPort&) = delete;
    RawPort& operator=(const RawPort&) = delete;

    /**
     * Sends a frame.
     * \param frame the frame
     * \param queue number of the queue
     * \return false if the ring has no room
     */
    bool Send(const Frame& frame, uint32_t queue = 0);

    /**
     * Receives a frame, and gives its slots back to the driver.
     * \param frame receives the frame
     * \param queue number of the queue
     * \return false if there is none
     */
    bool Receive(Frame& frame, uint32_t queue = 0);

    /**
     * Receives all frames that have arrived in queue 0.
     * \return their number
     */
    uint32_t ReceiveAll();

    /// Closes the port.
    void Close();

    /**
     * \return the port
     */
    slipring_port* Get() const
    {
        return m_port;
    }

  private:
    slipring_port* m_port; //!< the port
};

/// What arrives at a device
struct Received
{
    std::vector<Frame> frames; //!< payloads, without Ethernet header

    /**
     * Receives from a device, instead of the node.
     * \param device the device
     */
    void Connect(Ptr<NetDevice> device);

    /// The callback
    bool Receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&);
};

/**
 * Creates a device with an open port on a new node.
 * \param portName name of the port
 * \param slots slots of each ring; 0: the default
 * \return the device
 */
Ptr<SlipringNetDevice> MakeDevice(const std::string& portName, uint32_t slots = 0);

/**
 * Sends a packet to all hosts.
 * \param device the device
 * \param frame an Ethernet frame, of which the payload is sent
 * \return what the device returns
 */
bool SendPayload(Ptr<NetDevice> device, const Frame& frame);

/// A test that is one function
class FunctionTest : public TestCase
{
  public:
    /**
     * \param name name of the test
     * \param function the test
     */
    FunctionTest(std::string name, std::function<void(FunctionTest&)> function);

    /**
     * Notes a failure if the values differ.
     * \param actual the actual value
     * \param expected the expected value
     * \param what what it is
     */
    template <typename A, typename B>
    void Equal(const A& actual, const B& expected, const std::string& what)
    {
        NS_TEST_EXPECT_MSG_EQ(actual, static_cast<A>(expected), what);
    }

    /**
     * Notes a failure unless the first value is at least the second.
     * \param actual the actual value
     * \param least the least value
     * \param what what it is
     */
    template <typename A>
    void AtLeast(A actual, A least, const std::string& what)
    {
        NS_TEST_EXPECT_MSG_GT_OR_EQ(actual, least, what);
    }

  private:
    void DoRun() override;

    std::function<void(FunctionTest&)> m_function; //!< the test
};

/// Queue limits that record the calls of Queued and Completed; the default limit is out of reach
class NotingLimits : public QueueLimits
{
  public:
    std::vector<uint32_t> queued;    //!< arguments of Queued
    std::vector<uint32_t> completed; //!< arguments of Completed
    int64_t limit{1 << 30};          //!< limit in bytes

    void Reset() override
    {
    }

    void Completed(uint32_t count) override
    {
        completed.push_back(count);
        m_inflight -= count;
    }

    int32_t Available() const override
    {
        return static_cast<int32_t>(limit - m_inflight);
    }

    void Queued(uint32_t count) override
    {
        queued.push_back(count);
        m_inflight += count;
    }

  private:
    int64_t m_inflight{0}; //!< bytes queued and not completed
};

/// A device with a queue disc
struct QueuedDevice
{
    Ptr<Node> node;                //!< node of the device
    Ptr<SlipringNetDevice> device; //!< the device
    QueueDiscContainer discs;      //!< the queue discs

    /**
     * \param portName name of the port
     * \param slots slots of each ring
     * \param limits limits of the bytes in the ring, or null
     */
    QueuedDevice(const std::string& portName, uint32_t slots, Ptr<QueueLimits> limits = nullptr);

    /**
     * Gives packets to the queue disc.
     * \param count number of packets
     * \param size bytes of each, without headers
     */
    void Send(uint32_t count, uint32_t size);
};

/// A pipe with a queued device at one end, and a raw port at the other
struct Bottleneck : public QueuedDevice
{
    RawPort peer; //!< the other end

    /**
     * \param slots slots of each ring
     * \param limits limits of the bytes in the ring, or null
     * \param pipe the pipe
     */
    explicit Bottleneck(uint32_t slots,
                        Ptr<QueueLimits> limits = nullptr,
                        const PipeEnds& pipe = PipeEnds());
};

} // namespace slipringtest
} // namespace ns3

#endif /* SLIPRING_TEST_UTIL_H */
