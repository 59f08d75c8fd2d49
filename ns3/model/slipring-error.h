/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_ERROR_H
#define SLIPRING_ERROR_H

#include <ostream>
#include <string>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief Why a port could not be opened, or why it was lost, and what to try next.
 */
struct SlipringError
{
    /// What kind of failure it was
    enum Kind
    {
        NONE,       ///< no failure
        USAGE,      ///< a name or value is invalid
        MACHINE,    ///< the machine lacks a privilege, a kernel feature or an interface
        PEER,       ///< the port was lost while in use
        DEFECT,     ///< a defect of libslipring
        SIMULATOR,  ///< the port cannot be used with the simulator implementation
        MULTI_RANK, ///< the simulation is distributed over several ranks
    };

    Kind kind{NONE};     //!< kind of the failure
    std::string code;    //!< libslipring's code, such as "SR0107"; empty if it has none
    std::string message; //!< what failed, and why
    std::string help;    //!< what to try next

    /**
     * \return true if there is an error
     */
    explicit operator bool() const
    {
        return kind != NONE;
    }

    /**
     * Returns the last error of this thread's calls of libslipring.
     * \param status the negative result of the call
     * \return the error
     */
    static SlipringError FromLibrary(int status);
};

/**
 * Prints the code, the message and the advice.
 * \param os the stream
 * \param error the error
 * \return the stream
 */
std::ostream& operator<<(std::ostream& os, const SlipringError& error);

} // namespace ns3

#endif /* SLIPRING_ERROR_H */
