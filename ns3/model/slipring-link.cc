// SPDX-License-Identifier: GPL-2.0-only

#include "slipring-link.h"

#include "slipring-error.h"

#include "ns3/abort.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <slipring.h>
#include <sstream>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("SlipringLink");
NS_OBJECT_ENSURE_REGISTERED(SlipringLink);

namespace
{

/**
 * The resolution of Time may be coarser or finer than a nanosecond. Nothing may leave early, so
 * times are rounded up.
 * \param ns a time of the engine
 * \return the first simulation time that is not before it
 */
Time
FromNanoSeconds(uint64_t ns)
{
    const Time time = NanoSeconds(ns);
    return static_cast<uint64_t>(time.GetNanoSeconds()) < ns ? time + Time(1) : time;
}

/**
 * \param time a simulation time
 * \return the first ns that is not before it
 */
uint64_t
ToNanoSeconds(Time time)
{
    const auto ns = static_cast<uint64_t>(time.GetNanoSeconds());
    return NanoSeconds(ns) < time ? ns + 1 : ns;
}

} // namespace

TypeId
SlipringLink::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::SlipringLink")
            .SetParent<Object>()
            .SetGroupName("SlipringNetDevice")
            .AddConstructor<SlipringLink>()
            .AddAttribute("Seed",
                          "Seed of all random decisions, unless the file has a seed.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&SlipringLink::m_seed),
                          MakeUintegerChecker<uint64_t>())
            .AddAttribute("Start",
                          "Simulation time at which traces, schedules and [[at]] of the file start.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&SlipringLink::m_start),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("MaxBytes",
                          "Maximum bytes of stored frames; frames beyond are lost as \"buffer\". "
                          "0: 1 GiB.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&SlipringLink::m_maxBytes),
                          MakeUintegerChecker<uint64_t>());
    return tid;
}

SlipringLink::SlipringLink()
    : m_network(nullptr),
      m_seed(1),
      m_maxBytes(0),
      m_refused(0),
      m_nextNs(SLIPRING_NEVER),
      m_reporting(false)
{
}

SlipringLink::~SlipringLink()
{
    slipring_network_free(m_network);
}

void
SlipringLink::DoDispose()
{
    m_event.Cancel();
    slipring_network_free(m_network);
    m_network = nullptr;
    m_deliver = DeliverCallback();
    m_lose = LossCallback();
    Object::DoDispose();
}

/// \return the options for these attributes
static slipring_network_options
Options(uint64_t seed, Time start, uint64_t maxBytes)
{
    slipring_network_options options{};
    options.size = sizeof(options);
    options.flags = SLIPRING_NETWORK_LOSSES;
    options.seed = seed;
    options.start_ns = ToNanoSeconds(start);
    options.max_bytes = maxBytes;
    return options;
}

bool
SlipringLink::Load(const std::string& path)
{
    const auto options = Options(m_seed, m_start, m_maxBytes);
    slipring_network* network = nullptr;
    const int status = slipring_network_load(path.c_str(), &options, &network);
    return Take(status, network);
}

bool
SlipringLink::Parse(const std::string& toml)
{
    const auto options = Options(m_seed, m_start, m_maxBytes);
    slipring_network* network = nullptr;
    const int status = slipring_network_parse(toml.c_str(), &options, &network);
    return Take(status, network);
}

bool
SlipringLink::Take(int status, slipring_network* network)
{
    if (status < 0)
    {
        std::ostringstream text;
        text << SlipringError::FromLibrary(status);
        m_error = text.str();
        return false;
    }
    m_error.clear();
    m_event.Cancel();
    slipring_network_free(m_network);
    m_network = network;
    m_nextNs = SLIPRING_NEVER;
    Arm();
    return true;
}

bool
SlipringLink::IsLoaded() const
{
    return m_network != nullptr;
}

const std::string&
SlipringLink::GetError() const
{
    return m_error;
}

uint32_t
SlipringLink::Count(uint32_t what) const
{
    return m_network ? static_cast<uint32_t>(slipring_network_count(m_network, what)) : 0;
}

std::string
SlipringLink::Name(uint32_t what, uint32_t number) const
{
    const char* name = m_network ? slipring_network_name(m_network, what, number) : nullptr;
    return name ? name : "";
}

uint32_t
SlipringLink::GetNEntries() const
{
    return Count(SLIPRING_ENTRIES);
}

uint32_t
SlipringLink::GetNExits() const
{
    return Count(SLIPRING_EXITS);
}

uint32_t
SlipringLink::GetNLinks() const
{
    return Count(SLIPRING_LINKS);
}

std::string
SlipringLink::GetEntryName(uint32_t entry) const
{
    return Name(SLIPRING_ENTRIES, entry);
}

std::string
SlipringLink::GetExitName(uint32_t exit) const
{
    return Name(SLIPRING_EXITS, exit);
}

std::string
SlipringLink::GetLinkName(uint32_t link) const
{
    return Name(SLIPRING_LINKS, link);
}

void
SlipringLink::SetDeliverCallback(DeliverCallback callback)
{
    m_deliver = callback;
}

void
SlipringLink::SetLossCallback(LossCallback callback)
{
    m_lose = callback;
}

void
SlipringLink::Offer(uint32_t entry, const uint8_t* frame, uint32_t size, uint64_t tag)
{
    NS_LOG_FUNCTION(this << entry << size << tag);
    NS_ABORT_MSG_UNLESS(m_network, "no links are loaded: call Load or Parse before Offer");
    const uint64_t nowNs = ToNanoSeconds(Simulator::Now());
    const int taken = slipring_network_push(m_network, entry, nowNs, frame, size, tag);
    NS_ABORT_MSG_IF(taken < 0, "the links refuse a frame: " << SlipringError::FromLibrary(taken));
    if (taken == 0)
    {
        m_refused++;
        if (!m_lose.IsNull())
        {
            m_lose(Loss{tag, 0, size, Simulator::Now(), "buffer", ""});
        }
    }
    Report();
    Arm();
}

void
SlipringLink::Run()
{
    m_nextNs = SLIPRING_NEVER;
    const int status = slipring_network_run(m_network, ToNanoSeconds(Simulator::Now()));
    NS_ABORT_MSG_IF(status < 0, "the links have failed: " << SlipringError::FromLibrary(status));
    Report();
    Arm();
}

void
SlipringLink::Report()
{
    // The bytes of a delivery are valid only until the next delivery is taken. So a callback must
    // not start another loop: the loop that called it reports the outcomes that it causes.
    if (!m_reporting)
    {
        m_reporting = true;
        ReportLosses();
        ReportDeliveries();
        ReportLosses();
        m_reporting = false;
    }
}

void
SlipringLink::ReportDeliveries()
{
    slipring_delivery taken{};
    taken.size = sizeof(taken);
    // A callback may dispose of this object, so `m_network` is checked before each delivery.
    while (m_network && slipring_network_take(m_network, &taken) == 1)
    {
        if (!m_deliver.IsNull())
        {
            m_deliver(Delivery{taken.exit,
                               taken.link,
                               taken.tag,
                               taken.remaining,
                               taken.data,
                               static_cast<uint32_t>(taken.data_len),
                               FromNanoSeconds(taken.arrival_ns)});
        }
    }
}

void
SlipringLink::ReportLosses()
{
    slipring_loss taken{};
    taken.size = sizeof(taken);
    while (m_network && slipring_network_take_loss(m_network, &taken) == 1)
    {
        if (!m_lose.IsNull())
        {
            const char* cause = slipring_cause_name(taken.cause);
            const std::string link = taken.link == UINT32_MAX ? "" : GetLinkName(taken.link);
            m_lose(Loss{taken.tag,
                        taken.remaining,
                        taken.len,
                        FromNanoSeconds(taken.at_ns),
                        cause ? cause : "",
                        link});
        }
    }
}

void
SlipringLink::Arm()
{
    const uint64_t nextNs = m_network ? slipring_network_next(m_network) : SLIPRING_NEVER;
    if (nextNs == m_nextNs)
    {
        return;
    }
    m_event.Cancel();
    m_nextNs = nextNs;
    if (nextNs != SLIPRING_NEVER)
    {
        const Time next = Max(FromNanoSeconds(nextNs), Simulator::Now());
        m_event = Simulator::Schedule(next - Simulator::Now(), &SlipringLink::Run, this);
    }
}

SlipringLink::Counters
SlipringLink::GetCounters(uint32_t link) const
{
    struct slipring_link_stats stats = {};
    stats.size = sizeof(stats);
    if (!m_network || slipring_link_stats(m_network, link, &stats) < 0)
    {
        return Counters{};
    }
    return Counters{stats.input_packets,
                    stats.copied_packets,
                    stats.output_packets,
                    stats.dropped_packets,
                    stats.in_flight_packets,
                    stats.marked_packets,
                    stats.corrupted_packets};
}

uint64_t
SlipringLink::GetNRefused() const
{
    return m_refused;
}

} // namespace ns3
