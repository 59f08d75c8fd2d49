// SPDX-License-Identifier: GPL-2.0-only
//
// The engine of `slipring emulate`, driven by simulator events.

#ifndef SLIPRING_LINK_H
#define SLIPRING_LINK_H

#include "ns3/callback.h"
#include "ns3/event-id.h"
#include "ns3/nstime.h"
#include "ns3/object.h"

#include <cstdint>
#include <string>
#include <vector>

struct slipring_network;

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * Emulated links from a TOML file, in simulation time.
 *
 * The file is that of `slipring emulate --config`. The same file, seed and arrivals give the same
 * losses, bit errors, copies and release times as `slipring emulate --virtual`, to the nanosecond.
 *
 * ```text
 *   Offer(entry, frame)  ->  police, loss, hold, queue, line, ...  ->  deliver callback
 *                                                                  ->  loss callback
 * ```
 *
 * One event is pending at a time: the next one of the engine. Not thread-safe: use it on the
 * simulator's thread, as all of ns-3.
 */
class SlipringLink : public Object
{
  public:
    /// A frame that leaves the links.
    struct Delivery
    {
        uint32_t exit;       //!< Number of the exit.
        uint32_t link;       //!< Number of the last link.
        uint64_t tag;        //!< The tag of Offer. A copy has the tag of its original.
        uint32_t remaining;  //!< Outcomes with this tag that are still to come.
        const uint8_t* data; //!< The bytes of the frame; valid during the callback.
        uint32_t size;       //!< Number of bytes.
        Time arrival;        //!< When the frame was offered.
    };

    /// A frame that was lost.
    struct Loss
    {
        uint64_t tag;       //!< The tag of Offer.
        uint32_t remaining; //!< Outcomes with this tag that are still to come.
        uint32_t length;    //!< Length of the frame, in bytes.
        Time at;            //!< When it was lost.
        std::string cause;  //!< Name of the cause; "buffer" if MaxBytes were stored.
        std::string link;   //!< Name of the link; empty: no link accepted the frame.
    };

    /// Counters of a link. At any time input + copied = output + dropped + inFlight.
    struct Counters
    {
        uint64_t input;     //!< Frames that entered.
        uint64_t copied;    //!< Copies that were made.
        uint64_t output;    //!< Frames that left.
        uint64_t dropped;   //!< Frames that were lost, for all causes.
        uint64_t inFlight;  //!< Frames inside.
        uint64_t marked;    //!< Frames marked "congestion experienced"; also in output.
        uint64_t corrupted; //!< Frames passed on with bit errors; also in output.
    };

    /// Called at the release time of a frame.
    typedef Callback<void, const Delivery&> DeliverCallback;
    /// Called when a frame is lost.
    typedef Callback<void, const Loss&> LossCallback;

    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();
    SlipringLink();
    ~SlipringLink() override;

    /**
     * Reads the links from a file. Set the attributes first.
     * \param path the file
     * \return false if the file is invalid; GetError says why, and links loaded before stay
     */
    bool Load(const std::string& path);
    /**
     * Reads the links from a text in the same format.
     * \param toml the text
     * \return false if the text is invalid
     */
    bool Parse(const std::string& toml);
    /// \return whether links are loaded
    bool IsLoaded() const;
    /// \return what failed last, why, and what to try next
    const std::string& GetError() const;

    /// \return the number of entries
    uint32_t GetNEntries() const;
    /// \return the number of exits
    uint32_t GetNExits() const;
    /// \return the number of links
    uint32_t GetNLinks() const;
    /**
     * \param entry number of an entry
     * \return its name, which is that of a port
     */
    std::string GetEntryName(uint32_t entry) const;
    /**
     * \param exit number of an exit
     * \return its name, which is that of a port
     */
    std::string GetExitName(uint32_t exit) const;
    /**
     * \param link number of a link
     * \return its name
     */
    std::string GetLinkName(uint32_t link) const;

    /**
     * Passes in a frame that arrives now. Its bytes are copied.
     * \param entry number of the entry
     * \param frame the Ethernet frame, without CRC
     * \param size its length in bytes, 65,535 at most
     * \param tag returned with each outcome of the frame
     */
    void Offer(uint32_t entry, const uint8_t* frame, uint32_t size, uint64_t tag);

    /// \param callback called at the release time of each frame
    void SetDeliverCallback(DeliverCallback callback);
    /// \param callback called for each lost frame
    void SetLossCallback(LossCallback callback);

    /**
     * \param link number of a link
     * \return its counters
     */
    Counters GetCounters(uint32_t link) const;
    /// \return how many offered frames were refused because MaxBytes were already stored ("buffer")
    uint64_t GetNRefused() const;

  protected:
    void DoDispose() override;

  private:
    /// Replaces the links. \param status of the call that made them \return whether it succeeded
    bool Take(int status, slipring_network* network);
    /// Performs all events of the engine that are due, and reports their outcomes.
    void Run();
    /// Reports all outcomes that the engine has. A callback may offer frames meanwhile.
    void Report();
    /// Reports the frames that are due to leave.
    void ReportDeliveries();
    /// Reports the lost frames.
    void ReportLosses();
    /// Schedules Run for the next event of the engine.
    void Arm();
    /// \param what SLIPRING_ENTRIES, _EXITS or _LINKS \return how many there are
    uint32_t Count(uint32_t what) const;
    /// \param what SLIPRING_ENTRIES, _EXITS or _LINKS \param number of one \return its name
    std::string Name(uint32_t what, uint32_t number) const;

    slipring_network* m_network; //!< The engine, or null.
    uint64_t m_seed;             //!< Seed, unless the file has one.
    Time m_start;                //!< Start of traces, schedules and [[at]].
    uint64_t m_maxBytes;         //!< Maximum bytes of stored frames.
    uint64_t m_refused;          //!< Frames that were refused.
    uint64_t m_nextNs;           //!< Time for which m_event is scheduled.
    bool m_reporting;            //!< Whether outcomes are being reported, perhaps in a callback.
    EventId m_event;             //!< The next Run.
    std::string m_error;         //!< What failed last.
    DeliverCallback m_deliver;   //!< Takes frames that leave.
    LossCallback m_lose;         //!< Takes lost frames.
};

} // namespace ns3

#endif // SLIPRING_LINK_H
