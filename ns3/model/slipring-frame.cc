/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-frame.h"

#include <algorithm>
#include <cstring>

namespace ns3
{

namespace
{

constexpr uint8_t TCP = 6;         //!< IP protocol number
constexpr uint8_t UDP = 17;        //!< IP protocol number
constexpr uint8_t TCP_FIN_PSH = 9; //!< flags that only the last segment keeps
constexpr uint8_t TCP_CWR = 0x80;  //!< flag that only the first segment keeps

/// Where the headers of a frame are
struct Headers
{
    std::size_t ip;         //!< offset of the IP header
    std::size_t transport;  //!< offset of the TCP or UDP header
    std::size_t end;        //!< offset of the end of the IP packet
    uint8_t protocol;       //!< protocol over IP
    bool isIpv6;            //!< whether it is an IPv6 packet
};

uint32_t
Get16(const uint8_t* at)
{
    return static_cast<uint32_t>(at[0] << 8 | at[1]);
}

void
Put16(uint8_t* at, uint32_t value)
{
    at[0] = static_cast<uint8_t>(value >> 8);
    at[1] = static_cast<uint8_t>(value);
}

uint32_t
Get32(const uint8_t* at)
{
    return Get16(at) << 16 | Get16(at + 2);
}

/// Adds the 16-bit words of some bytes to a sum of the Internet checksum (RFC 1071).
uint64_t
Sum(const uint8_t* at, std::size_t length, uint64_t sum)
{
    for (; length > 1; at += 2, length -= 2)
    {
        sum += Get16(at);
    }
    return length ? sum + (at[0] << 8) : sum;
}

uint32_t
Fold(uint64_t sum)
{
    while (sum >> 16)
    {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<uint32_t>(sum);
}

/// Finds the headers of an IPv4 packet that is no fragment. `headers.ip` is already set.
bool
FindIpv4(const uint8_t* frame, std::size_t length, Headers& headers)
{
    const uint8_t* ip = frame + headers.ip;
    std::size_t room = length - headers.ip;
    if (room < 20 || ip[0] >> 4 != 4)
    {
        return false;
    }
    std::size_t headerLength = (ip[0] & 15) * 4U;
    std::size_t total = Get16(ip + 2);
    // With segmentation offload, a packet longer than 64 KiB has the total length 0.
    total = total == 0 ? room : total;
    bool isFragment = Get16(ip + 6) & 0x3fff;
    if (headerLength < 20 || total < headerLength || total > room || isFragment)
    {
        return false;
    }
    headers.transport = headers.ip + headerLength;
    headers.end = headers.ip + total;
    headers.protocol = ip[9];
    headers.isIpv6 = false;
    return true;
}

/// Finds the headers of an IPv6 packet without extension headers.
bool
FindIpv6(const uint8_t* frame, std::size_t length, Headers& headers)
{
    const uint8_t* ip = frame + headers.ip;
    std::size_t room = length - headers.ip;
    if (room < 40 || ip[0] >> 4 != 6)
    {
        return false;
    }
    std::size_t payload = Get16(ip + 4);
    payload = payload == 0 ? room - 40 : payload;
    if (payload > room - 40)
    {
        return false;
    }
    headers.transport = headers.ip + 40;
    headers.end = headers.transport + payload;
    headers.protocol = ip[6];
    headers.isIpv6 = true;
    return true;
}

bool
FindHeaders(const uint8_t* frame, std::size_t length, Headers& headers)
{
    std::size_t at = 12;
    for (int tags = 0; tags < 3 && at + 2 <= length; tags++)
    {
        uint32_t type = Get16(frame + at);
        headers.ip = at + 2;
        if (type == 0x0800)
        {
            return FindIpv4(frame, length, headers);
        }
        if (type == 0x86dd)
        {
            return FindIpv6(frame, length, headers);
        }
        if (type != 0x8100 && type != 0x88a8)
        {
            return false;
        }
        at += 4;
    }
    return false;
}

/// Returns the sum of the pseudo header.
uint64_t
PseudoHeader(const uint8_t* frame, const Headers& headers)
{
    std::size_t addresses = headers.ip + (headers.isIpv6 ? 8 : 12);
    uint64_t sum = headers.protocol + (headers.end - headers.transport);
    return Sum(frame + addresses, headers.isIpv6 ? 32 : 8, sum);
}

/// Writes the checksum of a TCP or UDP packet.
void
WriteChecksum(uint8_t* frame, const Headers& headers, std::size_t field)
{
    Put16(frame + field, 0);
    uint64_t sum = PseudoHeader(frame, headers);
    sum = Sum(frame + headers.transport, headers.end - headers.transport, sum);
    uint32_t checksum = Fold(sum) ^ 0xffff;
    // A UDP checksum of 0 is written as 0xffff, because 0 means that there is no checksum (RFC
    // 768).
    checksum = checksum == 0 && headers.protocol == UDP ? 0xffff : checksum;
    Put16(frame + field, checksum);
}

/// Writes the length, the identification and the checksum of a segment's IP header.
void
WriteIp(uint8_t* segment, const Headers& headers, uint32_t number)
{
    uint8_t* ip = segment + headers.ip;
    if (headers.isIpv6)
    {
        Put16(ip + 4, static_cast<uint32_t>(headers.end - headers.transport));
        return;
    }
    Put16(ip + 2, static_cast<uint32_t>(headers.end - headers.ip));
    Put16(ip + 4, Get16(ip + 4) + number);
    Put16(ip + 10, 0);
    Put16(ip + 10, Fold(Sum(ip, headers.transport - headers.ip, 0)) ^ 0xffff);
}

/// Writes the sequence number and the flags of a segment's TCP header.
void
WriteTcp(uint8_t* tcp, uint32_t sequence, bool isFirst, bool isLast)
{
    Put16(tcp + 4, sequence >> 16);
    Put16(tcp + 6, sequence & 0xffff);
    tcp[13] &= static_cast<uint8_t>(isFirst ? 0xff : ~TCP_CWR);
    tcp[13] &= static_cast<uint8_t>(isLast ? 0xff : ~TCP_FIN_PSH);
}

} // namespace

bool
SlipringCompleteChecksum(uint8_t* frame, std::size_t length)
{
    Headers headers;
    if (!FindHeaders(frame, length, headers))
    {
        return false;
    }
    std::size_t field = headers.transport;
    if (headers.protocol == TCP && headers.end - headers.transport >= 20)
    {
        field += 16;
    }
    else if (headers.protocol == UDP && headers.end - headers.transport >= 8)
    {
        field += 6;
    }
    else
    {
        return false;
    }
    if (Get16(frame + field) != Fold(PseudoHeader(frame, headers)))
    {
        return false;
    }
    WriteChecksum(frame, headers, field);
    return true;
}

std::vector<std::vector<uint8_t>>
SlipringSegmentTcp(const uint8_t* frame, std::size_t length, std::size_t mtu)
{
    std::vector<std::vector<uint8_t>> segments;
    Headers headers;
    if (!FindHeaders(frame, length, headers) || headers.protocol != TCP ||
        headers.end - headers.transport < 20)
    {
        return segments;
    }
    std::size_t tcpLength = (frame[headers.transport + 12] >> 4) * 4U;
    std::size_t payload = headers.transport + tcpLength;
    if (tcpLength < 20 || payload >= headers.end || payload - headers.ip >= mtu)
    {
        return segments;
    }
    std::size_t size = mtu - (payload - headers.ip);
    uint32_t sequence = Get32(frame + headers.transport + 4);
    for (std::size_t at = payload; at < headers.end; at += size)
    {
        std::size_t part = std::min(size, headers.end - at);
        std::vector<uint8_t> segment(frame, frame + payload);
        segment.insert(segment.end(), frame + at, frame + at + part);
        Headers own = headers;
        own.end = segment.size();
        WriteIp(segment.data(), own, static_cast<uint32_t>(segments.size()));
        WriteTcp(segment.data() + headers.transport,
                 sequence + static_cast<uint32_t>(at - payload),
                 segments.empty(),
                 at + part == headers.end);
        WriteChecksum(segment.data(), own, headers.transport + 16);
        segments.push_back(std::move(segment));
    }
    return segments;
}

} // namespace ns3
