/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_NET_DEVICE_H
#define SLIPRING_NET_DEVICE_H

#include "slipring-error.h"
#include "slipring-stats.h"

#include "ns3/fd-net-device.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/output-stream-wrapper.h"
#include "ns3/traced-value.h"

#include <memory>
#include <string>
#include <vector>

namespace ns3
{

class SlipringPoller;
class SlipringPort;
class SlipringRxQueue;
class SlipringSwitch;
class SlipringTxQueue;

/**
 * \ingroup slipring-net-device
 * \brief A device that exchanges frames with a port of slipring: an interface of the host, a pipe,
 *        a port of a switch, a capture.
 *
 * The simulator thread alone reads and writes rings, queues and packets. Under the real-time
 * simulator, a thread of the device polls the port's descriptor and schedules one event for all
 * frames that have arrived. Under the default simulator, pipes and ports of a switch are served by
 * events alone: there is no thread and no clock, and the same program gives the same result every
 * time.
 *
 * \verbatim
   Send -> tx slot -> flush: one tx sync -> port
           no room: Stop() ... the port frees slots -> event -> tx sync -> Wake()

   port -> poll thread -> event -> one rx sync -> rx slot -> Packet -> traces, callbacks
                          up to RxBurst frames, in turn from each ring; more: the next event
   \endverbatim
 */
class SlipringNetDevice : public FdNetDevice
{
  public:
    /// When published frames are sent
    enum FlushPolicy
    {
        END_OF_INSTANT, ///< at the end of the current simulated time, or after TxBurst frames; up
                        ///< to 200 us of simulated time later if the simulator is behind the clock
        IMMEDIATE,      ///< each immediately
        PERIOD,         ///< every SyncAndNotifyQueuePeriod, or after TxBurst frames
    };

    /// Which frames are received from an interface
    enum PromiscuousMode
    {
        REQUIRE, ///< all frames; opening fails if the port cannot
        ENABLE,  ///< all frames if the port can
        IGNORE_OTHERS, ///< only frames for the interface's own address
    };

    /// Whether the host's stack goes on using an interface
    enum HostStackMode
    {
        DETACH, ///< frames go only to the simulation
        SHARE,  ///< the host's stack receives all frames, too
    };

    /// Which time of reception packets carry
    enum TimestampMode
    {
        NO_TIMESTAMP, ///< none
        SOFTWARE,     ///< when the frame was taken from the ring
        HARDWARE,     ///< when the NIC received the frame
    };

    /**
     * TracedCallback signature for a tx queue.
     * \param [in] queue number of the queue
     */
    typedef void (*QueueTracedCallback)(uint32_t queue);

    /**
     * TracedCallback signature for frames of a queue.
     * \param [in] queue number of the queue
     * \param [in] frames number of frames
     */
    typedef void (*FramesTracedCallback)(uint32_t queue, uint32_t frames);

    /**
     * TracedCallback signature for a dropped packet.
     * \param [in] packet the packet, with its Ethernet header if it was received
     * \param [in] reason why it was dropped
     */
    typedef void (*DropTracedCallback)(Ptr<const Packet> packet, SlipringDropReason reason);

    /**
     * TracedCallback signature for the time of a packet.
     * \param [in] packet the packet, without Ethernet header
     * \param [in] time when it was received
     */
    typedef void (*TimestampTracedCallback)(Ptr<const Packet> packet, Time time);

    /**
     * TracedCallback signature for the lag of the simulator.
     * \param [in] lag how far the simulation is behind the clock
     */
    typedef void (*LagTracedCallback)(Time lag);

    /**
     * TracedCallback signature for the link.
     * \param [in] up whether the link is up
     */
    typedef void (*LinkTracedCallback)(bool up);

    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    SlipringNetDevice();
    ~SlipringNetDevice() override;

    /**
     * Opens the port, if it is not open. Without this call, the start of the device opens it.
     * \return the error; its kind is NONE after success
     */
    SlipringError Open();

    /**
     * \return the error with which the port could not be opened or was lost; its kind is NONE if
     *         there was none
     */
    const SlipringError& GetLastError() const;

    /**
     * Starts the device at a time. Hides the function of FdNetDevice, which needs a descriptor.
     * \param start delay from now
     */
    void Start(Time start);

    /**
     * Stops the device at a time.
     * \param stop delay from now
     */
    void Stop(Time stop);

    /**
     * \return whether the device is started
     */
    bool IsRunning() const;

    /**
     * \return whether simulator events alone serve the port
     */
    bool IsDeterministic() const;

    /**
     * \return number of tx queues; 0 if the port is not open
     */
    uint32_t GetNTxQueues() const;

    /**
     * \return the mode of the open port, "key=value ..."; empty if it is not open
     */
    std::string GetPortMode() const;

    /**
     * \param queue number of the queue
     * \return its counters
     */
    SlipringQueueStats GetStats(uint32_t queue) const;

    /**
     * \return the sums of the counters of all queues
     */
    SlipringQueueStats GetStats() const;

    /**
     * \param queue number of the queue
     * \return bytes of its frames that have not left the tx ring
     */
    uint64_t GetInflightBytes(uint32_t queue) const;

    /**
     * \param queue number of the queue
     * \return number of its frames that have not left the tx ring
     */
    uint64_t GetInflightFrames(uint32_t queue) const;

    /**
     * Prints the mode, and the counters of each queue, one line for each.
     * \param stream the stream
     */
    void PrintStats(Ptr<OutputStreamWrapper> stream) const;

    /**
     * Serves the port now: receives up to RxBurst frames, sends what was published, and wakes
     * stopped queues. Only the simulator thread may call it, in an event of the device's node
     * (`Simulator::ScheduleWithContext`): builds of ns-3 with assertions end the program if a node
     * receives in another context. A call without need is harmless.
     */
    void Service();

    // inherited from FdNetDevice
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool SendFrom(Ptr<Packet> packet,
                  const Address& source,
                  const Address& dest,
                  uint16_t protocolNumber) override;
    void SetReceiveCallback(NetDevice::ReceiveCallback cb) override;
    void SetPromiscReceiveCallback(NetDevice::PromiscReceiveCallback cb) override;
    bool SetMtu(const uint16_t mtu) override;

    /**
     * Puts a frame into the tx ring of the selected queue.
     * \param buffer the frame; need not come from AllocateBuffer
     * \param length its length in bytes
     * \return the length; -1 if the frame was dropped, which is counted
     */
    ssize_t Write(uint8_t* buffer, size_t length) override;

  protected:
    void DoInitialize() override;
    void DoDispose() override;
    void NotifyNewAggregate() override;
    uint8_t* AllocateBuffer(size_t len) override;
    void FreeBuffer(uint8_t* buf) override;

  private:
    friend class SlipringNetDeviceTestAccess;

    struct Queue;
    struct Guard;
    class Event;

    void DoFinishStoppingDevice() override;

    /// Starts the device now.
    void StartPort();

    /// Stops the device now, cancels its scheduled start and stop, and closes the port.
    void StopPort();

    /// Closes the port, if it is open. If the device runs, stops it before.
    void ClosePort();

    /**
     * Opens the port. Under the default simulator, a port of a switch is one of this process.
     * \return false after an error, which is m_lastError then
     */
    bool OpenPort();

    /// Creates the queues of the port that was opened.
    void CreateQueues();

    /**
     * \return why the port cannot be used with this simulator or PromiscuousMode; its kind is NONE
     *         if it can
     */
    SlipringError CheckSimulator() const;

    /**
     * \return why the attributes, or the simulator, cannot be used; its kind is NONE if they can
     */
    SlipringError CheckAttributes() const;

    /**
     * Ends the use of a port that returns errors.
     * \param status the negative status
     */
    void PortFailed(int status);

    /**
     * \param up whether the link is up
     */
    void SetLink(bool up);

    /// Asks the kernel whether the interface is up.
    void ObserveLink();

    /// Measures the lag of the real-time simulator.
    void ObserveLag();

    /**
     * \return how far the real-time simulator is behind the clock; 0 under other simulators
     */
    Time GetLag() const;

    /// Schedules Service, unless it is scheduled already.
    void ScheduleService();

    /**
     * Schedules the flush of the tx rings, unless it is scheduled for that time or an earlier one.
     * \param delay delay from now
     */
    void ScheduleFlush(Time delay);

    /// Schedules the next periodic service, if there is a period.
    void SchedulePeriod();

    /// Schedules the check for stalls, unless it is scheduled already.
    void ScheduleStallCheck();

    /// Sends published frames, serves the port, and schedules the next periodic service.
    void ServePeriod();

    /// Schedules FlushIfDue for m_flushTime, unless an event for that time or an earlier one exists.
    void ScheduleFlushEvent();

    /// Sends published frames, if their flush is due; if it is not, schedules this again.
    void FlushIfDue();

    /// Sends published frames.
    void Flush();

    /**
     * Sends published frames, and looks for received ones. If the peer of a veth interface answers
     * while the frames are sent, the poll thread does not wait for the answer, and need not wake.
     */
    void FlushAndReceive();

    /**
     * \param number number of the queue
     * \return whether frames have to leave its ring
     */
    bool IsWaiting(uint32_t number) const;

    /// Looks for queues that have not sent for TxStallTimeout.
    void CheckStall();

    /**
     * Schedules a function of this device.
     * \param delay delay from now
     * \param function the function
     */
    void ScheduleMember(Time delay, void (SlipringNetDevice::*function)());

    /**
     * Receives up to RxBurst frames.
     * \return whether there may be more
     */
    bool Receive();

    /**
     * Starts a burst: syncs all rx rings.
     * \return false if the port has failed, or a callback has stopped the device
     */
    bool SyncRx();

    /**
     * Syncs the rx rings.
     * \return whether a frame is there
     */
    bool HasReceived();

    /**
     * Syncs an rx ring.
     * \param number number of the queue
     * \return false if the port has failed
     */
    bool SyncRx(uint32_t number);

    /**
     * Empties the share RxDropOldest of an rx ring that was full, and again in each burst until
     * less arrives: drops the oldest frames.
     * \param number number of the queue
     * \return whether it has dropped frames, whose slots the next sync returns
     */
    bool DropOldest(uint32_t number);

    /**
     * Takes a frame from a queue, and passes it up.
     * \param number number of the queue
     * \return false if it has none
     */
    bool ReceiveFrame(uint32_t number);

    /**
     * Passes up a frame that may be too long, or have an incomplete checksum.
     * \param number number of the queue
     * \param data the frame
     * \param length its length in bytes
     */
    void Accept(uint32_t number, uint8_t* data, std::size_t length);

    /**
     * Splits a long frame, and passes up the segments.
     * \param number number of the queue
     * \param data the frame
     * \param length its length in bytes
     */
    void AcceptLong(uint32_t number, const uint8_t* data, std::size_t length);

    /**
     * Passes up a frame.
     * \param number number of the queue
     * \param data the frame
     * \param length its length in bytes
     */
    void PassUp(uint32_t number, uint8_t* data, std::size_t length);

    /**
     * Syncs a tx ring, reports what has left it, and wakes its queue if there is room.
     * \param number number of the queue
     * \return false if the port has failed, or a callback has stopped the device
     */
    bool SyncTx(uint32_t number);

    /**
     * Tells the byte queue limits of a queue about a frame in its ring.
     * \param number number of the queue
     * \param bytes length of the frame
     * \return whether the queue is stopped
     */
    bool NotifyQueued(uint32_t number, uint32_t bytes);

    /**
     * Makes a queue, and its byte queue limits, forget the frames of a ring that is closed.
     * \param number number of the queue
     */
    void ResetLimits(uint32_t number);

    /// Stops the queues whose rings are full of frames from before a restart.
    void StopFull();

    /// Wakes the queues that byte queue limits have stopped because of frames of a former ring.
    void ResumeLimited();

    /**
     * Stops a queue whose ring has no room for a frame of the MTU.
     * \param number number of the queue
     */
    void StopIfFull(uint32_t number);

    /**
     * Wakes a queue whose ring has enough room.
     * \param number number of the queue
     */
    void WakeIfRoom(uint32_t number);

    /**
     * \param number number of the queue
     * \return the queue of ns-3's flow control, or null
     */
    Ptr<NetDeviceQueue> GetDeviceQueue(uint32_t number) const;

    /// Publishes the number of bytes in flight.
    void UpdateInflight();

    /// Makes the poll thread wait for the port.
    void Wait();

    /// Ends the wait of the poll thread.
    void EndWait();

    /**
     * \return whether an event is wanted when frames leave the tx rings
     */
    bool WantsTxEvents() const;

    /// Makes the devices at the other end of the pipe, or the switch, schedule the service of this
    /// device when they have changed something at its port.
    void JoinPeers();

    /// Ends what JoinPeers has begun.
    void LeavePeers();

    /**
     * \return whether each device that changes something at the port schedules the service of this
     *         device
     */
    bool IsServedByPeers() const;

    /// Schedules the events that bring the sent frames to their receivers.
    void NotifySent();

    /**
     * Ends a burst: returns the slots that were read.
     * \return whether further frames have arrived
     */
    bool ReturnSlots();

    /// Schedules the service of the devices at the other end of a pipe.
    void KickPeers();

    /**
     * Counts and traces a dropped frame.
     * \param number number of the queue
     * \param reason why it was dropped
     * \param data the frame
     * \param length its length in bytes
     */
    void DropReceived(uint32_t number,
                      SlipringDropReason reason,
                      const uint8_t* data,
                      std::size_t length);

    /**
     * Counts a frame that cannot be sent.
     * \param reason why it was dropped
     * \return -1
     */
    ssize_t RefuseTx(SlipringDropReason reason);

    /// Counts the frames that are in the tx rings when the port is closed.
    void CountUnfinished();

    /// Drops the frames that are in the rx rings when the device stops.
    void DropUnread();

    /**
     * Selects the tx queue of a packet by its flow.
     * \param item the packet
     * \return number of the queue
     */
    std::size_t SelectQueue(Ptr<QueueItem> item) const;

    /**
     * Tags a received packet with its time.
     * \param packet the packet
     */
    void Stamp(Ptr<const Packet> packet);

    /// Passes a packet to the receive callback.
    bool Deliver(Ptr<NetDevice> device,
                 Ptr<const Packet> packet,
                 uint16_t protocol,
                 const Address& source);

    /// Passes a packet to the promiscuous receive callback.
    bool DeliverPromisc(Ptr<NetDevice> device,
                        Ptr<const Packet> packet,
                        uint16_t protocol,
                        const Address& source,
                        const Address& destination,
                        PacketType type);

    std::shared_ptr<Guard> m_guard;          //!< keeps events away from a device that is gone
    std::unique_ptr<SlipringPort> m_port;    //!< the port, if it is open
    std::vector<Queue> m_queues;             //!< the queues of the port
    std::vector<SlipringQueueStats> m_stats; //!< counters, which outlive the port
    std::unique_ptr<SlipringPoller> m_poller; //!< the poll thread; null in deterministic mode
    Ptr<NetDeviceQueueInterface> m_queueInterface; //!< ns-3's flow control, or null
    SlipringError m_lastError;               //!< the last error
    std::string m_pipeKey;                   //!< what both ends of a pipe have in common
    std::shared_ptr<SlipringSwitch> m_switch; //!< the switch of this process to which the port belongs
    std::string m_interface;                 //!< interface whose link is watched, or empty
    std::vector<uint8_t> m_scratch;          //!< a frame that is not written directly to a slot

    bool m_running{false};        //!< whether the device is started
    bool m_isRealtime{false};     //!< whether the simulator follows the clock
    bool m_receives{true};        //!< whether the rx rings are read
    bool m_linkUp{false};         //!< whether the link is up
    bool m_servicePending{false}; //!< whether Service is scheduled
    bool m_flushPending{false};   //!< whether published frames wait for a Flush at m_flushTime
    bool m_stallPending{false};   //!< whether CheckStall is scheduled
    bool m_periodPending{false};  //!< whether ServePeriod is scheduled
    bool m_armed{false};          //!< whether the poll thread waits
    bool m_ended{false};          //!< whether no frame will ever arrive again
    bool m_warnedLong{false};     //!< whether the user was warned of frames that are too long
    bool m_warnedLag{false};      //!< whether the user was warned of the simulator's lag
    uint32_t m_armedEvents{0};    //!< what the poll thread waits for
    uint32_t m_txQueue{0};        //!< queue of the packet that is being sent
    uint32_t m_nextRx{0};         //!< queue with which the next burst starts
    int m_linkFd{-1};             //!< descriptor of link changes
    SlipringDropReason m_refusal{SlipringDropReason::TX_LINK_DOWN}; //!< why Write last refused a frame
    Time m_flushTime;             //!< when the pending flush is due
    /// When the earliest scheduled FlushIfDue runs; Time::Max() if none is scheduled
    Time m_flushEventTime{Time::Max()};
    Time m_rxTime;                //!< when the current burst was received
    EventId m_startDevice;        //!< start of the device
    EventId m_stopDevice;         //!< stop of the device

    std::string m_portName;      //!< attribute PortName
    std::string m_runDir;        //!< attribute RunDir
    uint32_t m_ringSlots;        //!< attribute RingSlots
    uint32_t m_rxBurst;          //!< attribute RxBurst
    double m_rxDropOldest;       //!< attribute RxDropOldest
    uint32_t m_txBurst;          //!< attribute TxBurst
    FlushPolicy m_txFlush;       //!< attribute TxFlush
    Time m_period;               //!< attribute SyncAndNotifyQueuePeriod
    uint32_t m_wakeThreshold;    //!< attribute TxWakeThreshold
    uint32_t m_maxTxQueues;      //!< attribute NTxQueues
    uint32_t m_maxRxQueues;      //!< attribute NRxQueues
    TimestampMode m_timestamps;  //!< attribute Timestamping
    bool m_checksumFixup;        //!< attribute ChecksumFixup
    PromiscuousMode m_promiscuous; //!< attribute Promiscuous
    HostStackMode m_hostStack;   //!< attribute HostStack
    Time m_stopDrainTime;        //!< attribute StopDrainTime
    Time m_maxLag;               //!< attribute MaxRealtimeLag
    Time m_stallTimeout;         //!< attribute TxStallTimeout

    NetDevice::ReceiveCallback m_receive;            //!< callback of the node
    NetDevice::PromiscReceiveCallback m_promiscReceive; //!< promiscuous callback of the node
    TracedCallback<> m_linkChanges;                  //!< callbacks of AddLinkChangeCallback
    TracedCallback<uint32_t> m_txRingFullTrace;      //!< trace source TxRingFull
    TracedCallback<uint32_t, uint32_t> m_rxOverrunTrace; //!< trace source RxOverrun
    TracedCallback<uint32_t, uint32_t> m_txSyncTrace; //!< trace source TxSync
    TracedCallback<uint32_t, uint32_t> m_rxBurstTrace; //!< trace source RxBurst
    TracedCallback<Ptr<const Packet>, SlipringDropReason> m_dropTrace; //!< trace source Drop
    TracedCallback<Ptr<const Packet>, Time> m_timestampTrace; //!< trace source RxTimestamp
    TracedCallback<Time> m_lagTrace;                 //!< trace source RealtimeLag
    TracedCallback<bool> m_linkTrace;                //!< trace source LinkState
    TracedCallback<uint32_t> m_stallTrace;           //!< trace source TxStall
    TracedValue<uint32_t> m_inflightBytes{0};        //!< trace source TxInflightBytes
};

} // namespace ns3

#endif /* SLIPRING_NET_DEVICE_H */
