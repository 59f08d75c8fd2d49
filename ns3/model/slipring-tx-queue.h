/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_TX_QUEUE_H
#define SLIPRING_TX_QUEUE_H

#include <cstddef>
#include <cstdint>
#include <deque>

struct slipring_port;
struct netmap_ring;

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief A tx ring, and the lengths of the frames in it.
 *
 * A frame is in flight from Publish until the ring has freed its last slot. Lengths are kept
 * here, not read back from the slots, so that the bytes in flight are exact.
 */
class SlipringTxQueue
{
  public:
    /// Frames that have left the ring
    struct Completed
    {
        uint32_t frames{0}; //!< number of frames
        uint32_t bytes{0};  //!< their bytes
        uint32_t slots{0};  //!< slots that became free, also of frames of before the port was opened
    };

    /**
     * \param port the port
     * \param queue number of the queue
     * \param shared whether another process may write the ring's memory
     */
    SlipringTxQueue(slipring_port* port, uint32_t queue, bool shared);

    /**
     * \return number of slots of the ring
     */
    uint32_t GetSlots() const;

    /**
     * \return number of free slots, as of the last sync
     */
    uint32_t GetSpace() const;

    /**
     * \param length length of a frame in bytes
     * \return number of slots for it
     */
    uint32_t SlotsFor(std::size_t length) const;

    /**
     * Returns the memory of the next slot, for a frame to be written to. The next call of Publish
     * with this address copies nothing.
     * \param length length of the frame in bytes
     * \return the memory, or null if the frame does not fit
     */
    uint8_t* Reserve(std::size_t length) const;

    /**
     * Puts a frame into the ring, for the next sync.
     * \param frame the frame
     * \param length its length in bytes
     * \return false if the ring has no room for it
     */
    bool Publish(const uint8_t* frame, std::size_t length);

    /**
     * Sends what was published, and frees the slots of frames that have left.
     * \param completed receives the frames that have left since the last call
     * \return 0, or libslipring's negative status
     */
    int Sync(Completed& completed);

    /**
     * Makes a wait for tx end only when a further slot becomes free.
     */
    void WaitForProgress();

    /**
     * \return frames that were published after the last sync
     */
    uint32_t GetUnsynced() const
    {
        return m_unsynced;
    }

    /**
     * \return bytes of the frames that have not left the ring
     */
    uint64_t GetInflightBytes() const
    {
        return m_inflightBytes;
    }

    /**
     * \return number of frames that have not left the ring
     */
    uint64_t GetInflightFrames() const
    {
        return m_inflightFrames;
    }

    /**
     * \return number of slots in flight, also those of frames from before the port was opened
     */
    std::size_t GetInflightSlots() const
    {
        return m_lengths.size();
    }

  private:
    /**
     * Writes the slots of a frame.
     * \param frame the frame
     * \param length its length in bytes
     */
    void FillSlots(const uint8_t* frame, std::size_t length);

    slipring_port* m_port;    //!< the port
    uint32_t m_queue;         //!< number of the queue
    bool m_shared;            //!< whether another process may write the ring
    netmap_ring* m_ring;      //!< the ring; null if the port cannot send
    uint32_t m_tail;          //!< the ring's tail after the last sync
    uint32_t m_unsynced;      //!< frames published after the last sync
    uint64_t m_inflightBytes; //!< bytes in flight
    uint64_t m_inflightFrames; //!< frames in flight
    /// For each slot in flight, oldest first: the length of the whole frame if the slot is the
    /// frame's last one, and 0 otherwise. Slots that were already in flight when the port was opened
    /// have 0, too, because their frames are not counted here.
    std::deque<uint32_t> m_lengths;
};

} // namespace ns3

#endif /* SLIPRING_TX_QUEUE_H */
