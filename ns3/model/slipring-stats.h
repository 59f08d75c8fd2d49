/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_STATS_H
#define SLIPRING_STATS_H

#include <array>
#include <cstdint>
#include <ostream>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief Why the device dropped a frame.
 */
enum class SlipringDropReason : uint8_t
{
    TX_LINK_DOWN,     ///< the device is stopped or its link is down
    TX_TOO_LONG,      ///< the frame is longer than the MTU, or than the port can send
    TX_RING_FULL,     ///< no free slot in the tx ring
    TX_QUEUE_STOPPED, ///< the tx queue is stopped: the ring has no room for a frame of the MTU
    RX_TOO_SHORT,     ///< the frame is shorter than its header
    RX_TOO_LONG,      ///< the frame is longer than the MTU, and is not segmented
    RX_INCOMPLETE,    ///< slots of the frame were missing or invalid
    RX_OVERRUN,       ///< the rx ring was full, and the frame was one of the oldest in it
    RX_LOST_AT_STOP,  ///< the frame was still in the rx ring when the device stopped
};

/// Number of reasons of SlipringDropReason
constexpr std::size_t SLIPRING_DROP_REASONS = 9;

/**
 * \ingroup slipring-net-device
 * \param reason the reason
 * \return its name, such as "tx_ring_full"
 */
const char* SlipringDropName(SlipringDropReason reason);

/**
 * \ingroup slipring-net-device
 * \brief Counters of a queue.
 *
 * txAccepted = txPackets + txUnfinished + frames in flight, and rxFrames + rxSegments =
 * rxPackets + drops of the reasons RX_, at any moment between two events.
 */
struct SlipringQueueStats
{
    uint64_t txAccepted{0};  //!< frames that were put into the tx ring
    uint64_t txPackets{0};   //!< frames that have left the tx ring
    uint64_t txBytes{0};     //!< bytes of the frames that have left the tx ring
    /// Frames in the tx ring when the device stopped. The other end of a pipe may still take them.
    uint64_t txUnfinished{0};
    uint64_t rxFrames{0};    //!< frames taken from the rx ring, and lost in it at a stop
    uint64_t rxSegments{0};  //!< additional frames made by segmentation
    uint64_t rxPackets{0};   //!< frames passed up
    uint64_t rxBytes{0};     //!< bytes of the frames that were passed up
    uint64_t rxChecksums{0}; //!< frames whose checksum was completed
    uint64_t txSyncs{0};     //!< tx syncs
    uint64_t rxBursts{0};    //!< bursts with at least one frame
    uint64_t portDrops{0};   //!< frames that the port dropped, most of them for a full rx ring
    uint64_t rxOverruns{0};  //!< bursts that found the rx ring full
    uint64_t stops{0};       //!< how often a full tx ring stopped the tx queue
    uint64_t wakes{0};       //!< how often free slots woke the tx queue
    uint64_t limitStops{0};  //!< how often byte queue limits stopped the tx queue
    uint64_t stalls{0};      //!< how often no frame left the tx ring for TxStallTimeout
    std::array<uint64_t, SLIPRING_DROP_REASONS> drops{}; //!< dropped frames by reason

    /**
     * \param reason the reason
     * \return dropped frames
     */
    uint64_t GetDrops(SlipringDropReason reason) const
    {
        return drops[static_cast<std::size_t>(reason)];
    }

    /**
     * Adds the counters of another queue.
     * \param other the other queue
     * \return this object
     */
    SlipringQueueStats& operator+=(const SlipringQueueStats& other);
};

/**
 * Prints the counters: "name=value ..." with drops by reason.
 * \param os the stream
 * \param stats the counters
 * \return the stream
 */
std::ostream& operator<<(std::ostream& os, const SlipringQueueStats& stats);

} // namespace ns3

#endif /* SLIPRING_STATS_H */
