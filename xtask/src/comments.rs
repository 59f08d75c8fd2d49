//! Finds the comments of a source file.

use proc_macro2::{LineColumn, TokenStream, TokenTree};

/// Returns the paragraphs of all line comments and doc comments, each in one line. Comments in
/// consecutive lines without code are one paragraph, up to an empty comment line.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    let mut literals = Vec::new();
    if let Ok(tokens) = text.parse() {
        find_literals(tokens, &mut literals);
    }
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    // The tokens of a doc comment contain it as a literal.
    literals.retain(|(start, _)| lines[start.line - 1].get(start.column) != Some(&'/'));
    let (mut found, mut last_whole_line) = (Vec::<String>::new(), None);
    for (at, line) in lines.iter().enumerate() {
        let Some(column) = comment_start(at + 1, line, &literals) else { continue };
        let comment: String = line[column..].iter().collect();
        let comment = comment.trim_start_matches(['/', '!']).trim();
        let is_whole_line = line[..column].iter().all(|c| c.is_whitespace());
        let goes_on = is_whole_line && at.checked_sub(1) == last_whole_line && at > 0;
        match found.last_mut().filter(|last| goes_on && !last.is_empty() && !comment.is_empty()) {
            Some(last) => {
                last.push(' ');
                last.push_str(comment);
            }
            None => found.push(comment.to_owned()),
        }
        last_whole_line = is_whole_line.then_some(at);
    }
    found
}

/// Returns the paragraphs of a document, each in one line.
pub(crate) fn paragraphs_of_document(text: &str) -> Vec<String> {
    text.split("\n\n").map(|paragraph| paragraph.lines().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the column at which the comment of a line begins; `None` if it has none. `number` is the
/// number of the line, counted from 1.
fn comment_start(
    number: usize,
    line: &[char],
    literals: &[(LineColumn, LineColumn)],
) -> Option<usize> {
    let is_in_literal = |column: usize| {
        let at = LineColumn { line: number, column };
        literals.iter().any(|(start, end)| (*start..*end).contains(&at))
    };
    let mut slashes = line.windows(2).enumerate().filter(|(_, pair)| **pair == ['/', '/']);
    slashes.find(|(column, _)| !is_in_literal(*column)).map(|(column, _)| column)
}

/// Collects where literals begin and end.
fn find_literals(tokens: TokenStream, found: &mut Vec<(LineColumn, LineColumn)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => find_literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                found.push((literal.span().start(), literal.span().end()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_comment_are_joined_and_comments_after_code_are_found() {
        let text = "//! One\n//! text.\n//!\n//! Another.\nfn a() {\n    // In\n    // full.\n    \
                    b(); // After code.\n    // Next.\n}\n/// Doc\n/// here.\nfn c() {}\n";
        let found = paragraphs(text);
        let found: Vec<_> = found.iter().filter(|text| !text.is_empty()).collect();
        let expected = ["One text.", "Another.", "In full.", "After code.", "Next.", "Doc here."];
        assert_eq!(found, expected);
    }

    #[test]
    fn slashes_in_literals_begin_no_comment() {
        let text = "const A: &str = \"http://a // b\"; // c\nconst B: &str = r#\"\n// d\n\"#;\n\
                    const C: [char; 2] = ['/', '\"']; // e\n";
        assert_eq!(paragraphs(text), ["c", "e"]);
    }

    #[test]
    fn paragraphs_of_a_document_end_at_empty_lines() {
        assert_eq!(paragraphs_of_document("a\nb\n\nc"), ["a b", "c"]);
    }
}
