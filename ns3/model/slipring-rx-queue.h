/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_RX_QUEUE_H
#define SLIPRING_RX_QUEUE_H

#include <cstddef>
#include <cstdint>
#include <vector>

struct slipring_port;
struct netmap_ring;

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief An rx ring, read frame by frame.
 */
class SlipringRxQueue
{
  public:
    /// A received frame; valid until the next call of Take or Sync
    struct Frame
    {
        uint8_t* data;      //!< the frame, which the program may change
        std::size_t length; //!< its length in bytes
        bool complete;      //!< false if slots of the frame were missing or invalid
    };

    /**
     * \param port the port
     * \param queue number of the queue
     * \param shared whether another process may write the ring's memory
     */
    SlipringRxQueue(slipring_port* port, uint32_t queue, bool shared);

    /**
     * Returns slots that were read, and takes over frames that have arrived.
     * \return 0, or libslipring's negative status
     */
    int Sync();

    /**
     * \return whether there is a frame to take
     */
    bool HasFrame() const;

    /**
     * \return number of slots with frames that have not been taken
     */
    uint32_t GetPending() const;

    /**
     * \return whether the ring had no slot for another frame before the last sync returned those
     *         that were read
     */
    bool WasFull() const;

    /**
     * \return number of slots of the ring
     */
    uint32_t GetSlots() const;

    /**
     * Takes the next frame.
     * \param frame receives the frame
     * \return false if there is none
     */
    bool Take(Frame& frame);

  private:
    /**
     * Takes a frame through libslipring, which checks the slots.
     * \param frame receives the frame
     * \return false if there is none
     */
    bool TakeChecked(Frame& frame);

    slipring_port* m_port;          //!< the port
    uint32_t m_queue;               //!< number of the queue
    bool m_shared;                  //!< whether another process may write the ring
    netmap_ring* m_ring;            //!< the ring; null if the port cannot receive
    uint32_t m_synced;              //!< slot before which all were returned by the last sync
    bool m_wasFull;                 //!< see WasFull
    std::vector<uint8_t> m_scratch; //!< a frame of several slots, or of a shared ring
};

} // namespace ns3

#endif /* SLIPRING_RX_QUEUE_H */
